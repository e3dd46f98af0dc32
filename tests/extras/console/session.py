"""Sign in to the console over HTTP, for tests."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from http.cookies import Morsel, SimpleCookie
from pathlib import Path
from typing import Final

import pytest

from gateway.extras.signins.sessions import SignInBook
from gateway.ledger.sql.books import Books
from tests.extras.console.kit import API, Console, open_console
from tests.extras.signins.visits import LOG2_N, P
from tests.support.served import HOLDER, OPERATOR, Reply

PASSWORD: Final = "correct horse battery"
SET_HASH: Final = "UPDATE passwords SET hash = ? WHERE account_id = 1"
SESSION: Final = f"{API}/session"


def _hash_password(log2_n: int) -> str:
    salt = b"0123456789abcdef"
    hashed = hashlib.scrypt(PASSWORD.encode(), salt=salt, n=2**log2_n, r=8, p=P, dklen=32)
    encoded = (base64.urlsafe_b64encode(one).decode() for one in (salt, hashed))
    return "$".join(("scrypt", str(log2_n), "8", str(P), *encoded))


STORED: Final = _hash_password(LOG2_N)
OUTDATED: Final = _hash_password(LOG2_N - 1)
"""The hash of the same password with other parameters."""


def seed_passwords(books: Books) -> None:
    for name in (HOLDER, OPERATOR):
        SignInBook(books).set_password(name, STORED)


async def sign_in(
    console: Console, name: str = HOLDER, password: str = PASSWORD, **headers: str
) -> Reply:
    body = {"name": name, "password": password}
    return await console.post(SESSION, body, as_=None, headers=headers)


def read_set_cookie(reply: Reply) -> Morsel[str]:
    (morsel,) = SimpleCookie(reply.headers["Set-Cookie"]).values()
    return morsel


def use(reply: Reply) -> dict[str, str]:
    """Return the request headers of the session that a reply opened."""
    morsel = read_set_cookie(reply)
    return {"Cookie": f"{morsel.key}={morsel.value}"}


def read_events(console: Console) -> list[tuple[str, str, str | None]]:
    return console.execute("SELECT actor, action, account FROM events WHERE action LIKE 'session%'")


@pytest.fixture(name="console")
async def open_with_passwords(tmp_path: Path) -> AsyncIterator[Console]:
    """Open a gateway where holder and operator have passwords. A module takes it by its name."""
    async with open_console(tmp_path, seed=seed_passwords) as console:
        yield console
