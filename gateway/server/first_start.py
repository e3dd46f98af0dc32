"""The first start: make accounts, a key and a sign-in link, so that a request works at once.

The key belongs to an ordinary account: whoever finds it can spend only that account's credit.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.addresses import make_local_url, make_tunnel_command
from gateway.admin import keys, signin
from gateway.config.records import Config
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books
from gateway.ledger.records import FIRST_START, Conflict

ACCOUNT: Final = "default"
OPERATOR: Final = "operator"


class CannotShow(Exception):
    """The key of a first start cannot be given to the operator."""


@dataclass(frozen=True, slots=True)
class FirstAccounts:
    """The key and the link that open the accounts of a first start."""

    secret: str = field(repr=False)
    """The key of the ordinary account."""
    link: signin.SigninLink
    """The operator's."""


def make_first_accounts(config: Config) -> FirstAccounts | None:
    """Create the accounts of a first start.

    Return None if gateway.toml has no `demo_credit`, or if there are accounts: another gateway may
    have its first start on the same database of PostgreSQL, and the later one makes nothing.
    """
    credit = config.billing.demo_credit_nano
    if credit is None:
        return None
    with open_books(config.storage.location, create=True) as books:
        books.actor = FIRST_START
        if books.accounts.find_names(None):
            return None
        try:
            books.accounts.create(OPERATOR, credit_nano=credit, operator=True)
        # Another gateway's first start has come in between.
        except Conflict:
            return None
        books.accounts.create(ACCOUNT, credit_nano=credit)
        link = signin.make_signin_link(books, OPERATOR)
        return FirstAccounts(keys.add_key(books, ACCOUNT, KeyTerms(name="first")).secret, link)


def show_first_accounts(config: Config, address: str, first: FirstAccounts) -> str:
    """Show key and link once and return the line to log.

    They go to the terminal if there is one, else to a file that only this user can read. Raises
    CannotShow.
    """
    text = _describe(config, address, first)
    # Otherwise stderr is a log, which others may read and which is kept.
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()
        return f"first start: accounts '{OPERATOR}' and '{ACCOUNT}' are made, and shown above"
    path = find_key_file(config)
    note = "its key lets anybody spend, its link lets one sign in"
    try:
        _write_private(path, f"{text}Note what you need and delete this file: {note}.\n")
    except OSError as error:
        raise CannotShow(
            f"{path}: cannot be written: {error.strerror}. The key in it is lost; for others run"
            f" `key add {ACCOUNT}` and `account signin-link {OPERATOR}`"
        ) from error
    return (
        f"first start: accounts '{OPERATOR}' and '{ACCOUNT}' are made; what opens them is in {path}"
    )


def find_key_file(config: Config) -> Path:
    """Return where the first start of a service keeps key and link.

    That is beside the database. With one of PostgreSQL it is the folder that systemd made for the
    service, as it may not write beside gateway.toml.
    """
    path = config.storage.path
    # Several folders are separated by colons (systemd.exec(5)).
    folder = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if config.storage.url is not None and folder:
        path = Path(folder) / path.name
    return path.with_name(f"{path.name}.first-key")


def _describe(config: Config, address: str, first: FirstAccounts) -> str:
    host, _, port = address.rpartition(":")
    local = host.strip("[]"), int(port)
    base_url = f"{make_local_url(*local)}/v1"
    talkers = (one.id for one in config.active_models().values() if one.talks)
    model = next(talkers, "demo/echo")
    body = f'{{"model":"{model}","messages":[{{"role":"user","content":"Hello, gateway!"}}]}}'
    public_url = signin.find_base_url(config.server, local)
    tunnel = make_tunnel_command(*local, os.environ) if config.server.public_url is None else None
    return (
        f"\nFirst start: the account '{ACCOUNT}' has this key, and the link signs in as '{OPERATOR}'."
        " Both are shown only once.\n\n"
        f"    base address  {base_url}\n"
        f"    API key       {first.secret}\n"
        f"    console       {first.link.url(public_url)}\n"
        "                  (works once, within 30 minutes; `account signin-link` makes another)\n"
        f"{_describe_tunnel(tunnel)}\n"
        f"curl {base_url}/chat/completions \\\n"
        f"  -H 'Authorization: Bearer {first.secret}' \\\n"
        f"  -H 'Content-Type: application/json' \\\n"
        f"  -d '{body}'\n\n"
    )


def _describe_tunnel(command: str | None) -> str:
    """Tell people on another machine how to open the link, which is of this one."""
    if command is None:
        return ""
    return (
        f"    from another  {command}\n"
        "    machine       (type this there, then open the link there)\n"
    )


def _write_private(path: Path, text: str) -> None:
    # Made anew and exclusively: a file that is there may be a link, or readable by others.
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
