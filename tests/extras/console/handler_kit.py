"""Make console requests that passed all checks, for tests of handlers."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.extras.console.routes import ConsoleRequest
from gateway.extras.console.state import BooksThread, ConsoleState
from gateway.extras.signins.records import SessionView
from gateway.ledger.records import AccountView
from tests.support.records import make_call


def make_request(
    http: web.Request,
    books_thread: BooksThread,
    account: AccountView,
    body: bytes = b"",
    started_ms: int = 0,
) -> ConsoleRequest:
    """Make a request that can reach nothing but the books' thread."""
    session = SessionView(
        "session", account, "", "password", "Firefox on Linux", "127.0.0.1", 0, 0, 0
    )
    console = cast("ConsoleState", SimpleNamespace(books_thread=books_thread))
    call = make_call(started_ms=started_ms, visit={"address": "127.0.0.1"})
    return ConsoleRequest(http, call, console, session, body)


def make_post(
    books_thread: BooksThread,
    account: AccountView,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
) -> ConsoleRequest:
    return make_request(
        make_mocked_request("POST", path, headers=headers), books_thread, account, body
    )


@contextlib.asynccontextmanager
async def open_books_thread(path: Path) -> AsyncIterator[BooksThread]:
    books_thread = BooksThread(path)
    try:
        yield books_thread
    finally:
        await books_thread.close()
