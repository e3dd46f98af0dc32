"""A console request that was let in, without the door: for what stands behind it."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.console.desk import Desk
from gateway.console.state import Console, Visit
from gateway.ledger.records import AccountView, SessionView
from gateway.state import Gateway


def make_visit(request: web.Request, desk: Desk, account: AccountView, body: bytes = b"") -> Visit:
    """Nothing but the desk is behind it."""
    session = SessionView("session", account, "password", "Firefox on Linux", "127.0.0.1", 0, 0, 0)
    nothing = SimpleNamespace(desk=desk)
    return Visit(
        request, cast("Gateway", nothing), cast("Console", nothing), session, "127.0.0.1", body
    )


def make_post(
    desk: Desk, account: AccountView, path: str, headers: Mapping[str, str], body: bytes
) -> Visit:
    return make_visit(make_mocked_request("POST", path, headers=headers), desk, account, body)


@contextlib.asynccontextmanager
async def open_desk(path: Path) -> AsyncIterator[Desk]:
    desk = Desk(path)
    try:
        yield desk
    finally:
        await desk.close()
