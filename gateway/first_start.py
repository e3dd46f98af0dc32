"""The first start: an account with the demo credit and a key, so that the main job just runs."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.accounts import add_account, add_key, open_books
from gateway.addresses import make_local_url
from gateway.config import Config
from gateway.signin import SigninLink, find_base_url, make_signin_link

ACCOUNT: Final = "default"


@dataclass(frozen=True, slots=True)
class FirstAccount:
    """An operator's, with all that it takes to begin."""

    secret: str = field(repr=False)
    """Its key."""
    link: SigninLink


def make_first_account(config: Config) -> FirstAccount | None:
    """Create the account of a first start; None when the file names no credit for it."""
    credit = config.billing.demo_credit_nano
    if credit is None:
        return None
    with open_books(config.storage.path, create=True) as books:
        add_account(books, ACCOUNT, credit_nano=credit, operator=True)
        link = make_signin_link(books, ACCOUNT)
        return FirstAccount(add_key(books, ACCOUNT, name="first").secret, link)


def show_first_account(config: Config, address: str, first: FirstAccount) -> str:
    """Show key and link once: on a terminal, else in a file only this user reads. What to log."""
    text = _describe(config, address, first)
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()
        return f"first start: account '{ACCOUNT}' and a key were made, see above"
    path = config.storage.path.with_name(config.storage.path.name + ".first-key")
    _write_private(path, text)
    return f"first start: account '{ACCOUNT}' was made; its key and sign-in link are in {path}"


def _describe(config: Config, address: str, first: FirstAccount) -> str:
    host, _, port = address.rpartition(":")
    local = host.strip("[]"), int(port)
    base_url = f"{make_local_url(*local)}/v1"
    model = next(iter(config.active_models()), "demo/echo")
    body = f'{{"model":"{model}","messages":[{{"role":"user","content":"Hello, gateway!"}}]}}'
    return (
        f"\nFirst start: account '{ACCOUNT}', an operator's, with a key. It is shown this once.\n\n"
        f"    base address  {base_url}\n"
        f"    API key       {first.secret}\n"
        f"    console       {first.link.url(find_base_url(config.server, local))}\n"
        "                  (signs in once, within a day; `account signin-link` makes another)\n\n"
        f"curl {base_url}/chat/completions \\\n"
        f"  -H 'Authorization: Bearer {first.secret}' \\\n"
        f"  -H 'Content-Type: application/json' \\\n"
        f"  -d '{body}'\n\n"
    )


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
