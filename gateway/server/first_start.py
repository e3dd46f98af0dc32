"""The first start: make accounts and a key, so that a request works at once, and what extras add.

The key belongs to an ordinary account: whoever finds it can spend only that account's credit.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.admin import keys
from gateway.base.addresses import make_local_url
from gateway.config.records import Config
from gateway.extension import FirstStartText, find_extras
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books
from gateway.ledger.records import FIRST_START

ACCOUNT: Final = "default"
OPERATOR: Final = "operator"


class CannotShow(Exception):
    """The key of a first start cannot be given to the operator."""


@dataclass(frozen=True, slots=True)
class FirstStart:
    """A first start that is done: its key was shown."""

    secret: str = field(repr=False)
    """The key of the ordinary account."""
    shown: str
    """Says where it was shown, for the log."""


def start_first(config: Config, address: str) -> FirstStart | None:
    """Make the accounts of a gateway that listens at the address, and show once what opens them.

    It is one transaction, so that a start that is killed, or cannot show the key, makes nothing: the next
    one is the first. Return None if gateway.toml has no `demo_credit`, or if there are accounts: another
    gateway may have had its first start on the same database of PostgreSQL. Raises CannotShow.
    """
    credit = config.billing.demo_credit_nano
    if credit is None:
        return None
    with open_books(config.storage.location, create=True) as books, books.changing():
        books.actor = FIRST_START
        if books.accounts.find_names(None):
            return None
        books.accounts.create(OPERATOR, credit_nano=credit, operator=True)
        books.accounts.create(ACCOUNT, credit_nano=credit)
        makers = [one.first_start for one in find_extras().values() if one.first_start is not None]
        others = [make(books, config, OPERATOR, _split(address)) for make in makers]
        secret = keys.add_key(books, ACCOUNT, KeyTerms(name="first")).secret
        return FirstStart(secret, _show(config, _describe(config, address, secret, others), others))


def _show(config: Config, text: str, others: Sequence[FirstStartText]) -> str:
    """Show a text on the terminal if there is one, else in a file that only this user can read."""
    # Otherwise stderr is a log, which others may read and which is kept, or it is closed.
    has_terminal = sys.stderr is not None and sys.stderr.isatty()
    path = None if has_terminal else find_key_file(config)
    note = ", ".join(["its key lets anybody spend", *(one.lets for one in others)])
    try:
        if path is None:
            sys.stderr.write(text)
            sys.stderr.flush()
        else:
            _write_private(path, f"{text}Note what you need and delete this file: {note}.\n")
    except OSError as error:
        raise CannotShow(
            f"{path or 'the terminal'}: cannot be written: {error.strerror}. It is to show the key of the"
            " first start, which has made nothing: see to that, and start again"
        ) from error
    where = "shown above" if path is None else f"in {path}"
    return (
        f"first start: accounts '{OPERATOR}' and '{ACCOUNT}' are made; what opens them is {where}"
    )


def find_key_file(config: Config) -> Path:
    """Return where the first start of a service keeps the key.

    That is beside the database. With one of PostgreSQL it is the folder that systemd made for the
    service, as it may not write beside gateway.toml.
    """
    path = config.storage.path
    # Several folders are separated by colons (systemd.exec(5)).
    folder = os.environ.get("STATE_DIRECTORY", "").partition(":")[0]
    if config.storage.url is not None and folder:
        path = Path(folder) / path.name
    return path.with_name(f"{path.name}.first-key")


def _describe(config: Config, address: str, secret: str, others: Sequence[FirstStartText]) -> str:
    base_url = f"{make_local_url(*_split(address))}/v1"
    talkers = (one.id for one in config.active_models().values() if one.talks)
    model = next(talkers, "demo/echo")
    body = f'{{"model":"{model}","messages":[{{"role":"user","content":"Hello, gateway!"}}]}}'
    shown = [f"the account '{ACCOUNT}' has this key", *(one.does for one in others)]
    how_many = ("It is", "Both are", "All are")[min(len(others), 2)]
    return (
        f"\nFirst start: {', and '.join(shown)}. {how_many} shown only once.\n\n"
        f"    base address  {base_url}\n"
        f"    API key       {secret}\n"
        f"{''.join(one.lines for one in others)}\n"
        f"curl {base_url}/chat/completions \\\n"
        f"  -H 'Authorization: Bearer {secret}' \\\n"
        f"  -H 'Content-Type: application/json' \\\n"
        f"  -d '{body}'\n\n"
    )


def _split(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def _write_private(path: Path, text: str) -> None:
    # Made anew and exclusively: a file that is there may be a link, or readable by others.
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(descriptor)  # as the accounts are, which follow
