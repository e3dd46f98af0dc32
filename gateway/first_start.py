"""The first start: an account with the demo credit and a key, so that the main job just runs."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final

from gateway.accounts import add_account, add_key, open_books
from gateway.config import Config

ACCOUNT: Final = "default"


def make_first_account(config: Config) -> str | None:
    """Create the account of a first start and give its key; None when the file names no credit."""
    credit = config.billing.demo_credit_nano
    if credit is None:
        return None
    with open_books(config.storage.path, create=True) as books:
        add_account(books, ACCOUNT, credit_nano=credit)
        return add_key(books, ACCOUNT, name="first").secret


def show_first_key(config: Config, address: str, secret: str) -> str:
    """Show the key once: on a terminal, else in a file only this user reads. What to log."""
    text = _describe(config, address, secret)
    if sys.stderr.isatty():
        sys.stderr.write(text)
        sys.stderr.flush()
        return "first start: account 'default' and a key were made, see above"
    path = config.storage.path.with_name(config.storage.path.name + ".first-key")
    _write_private(path, text)
    return f"first start: account 'default' was made; its key is in {path}"


def _describe(config: Config, address: str, secret: str) -> str:
    host, _, port = address.rpartition(":")
    host = {"0.0.0.0": "127.0.0.1", "[::]": "[::1]"}.get(host, host)  # noqa: S104 - a comparison
    base_url = f"http://{host}:{port}/v1"
    model = next(iter(config.active_models()), "demo/echo")
    body = f'{{"model":"{model}","messages":[{{"role":"user","content":"Hello, gateway!"}}]}}'
    return (
        f"\nFirst start: account '{ACCOUNT}' with a key. It is shown this once.\n\n"
        f"    base address  {base_url}\n"
        f"    API key       {secret}\n\n"
        f"curl {base_url}/chat/completions \\\n"
        f"  -H 'Authorization: Bearer {secret}' \\\n"
        f"  -H 'Content-Type: application/json' \\\n"
        f"  -d '{body}'\n\n"
    )


def _write_private(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
