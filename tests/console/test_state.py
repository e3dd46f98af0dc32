"""One console request: who acts in the books, and where the connection came in."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.admin import accounts
from gateway.console.routes import Answer, ConsoleRequest, find_local
from gateway.console.state import BooksThread, ConsoleState
from gateway.ledger.records import Actor
from tests.console.handler_kit import make_post, open_books_thread


@pytest.fixture
async def request_(tmp_path: Path) -> AsyncIterator[ConsoleRequest]:
    with accounts.open_books(tmp_path / "gateway.db", create=True) as books:
        account = accounts.add_account(books, "alice")
    async with open_books_thread(tmp_path / "gateway.db") as thread:
        assert isinstance(thread, BooksThread)
        yield make_post(thread, account, "/?day=2026-01-01", {}, b'{"name": "laptop"}')


async def test_the_books_know_who_is_signed_in(request_: ConsoleRequest) -> None:
    signed_out = replace(request_, caller=None)
    assert await request_.run(lambda books: books.actor) == Actor("alice", "127.0.0.1")
    assert await signed_out.run(lambda books: books.actor) == Actor("nobody", "127.0.0.1")


def test_a_unix_socket_has_no_port() -> None:
    for name, local in ((("192.0.2.1", 8080), ("192.0.2.1", 8080)), ("/run/x.sock", None)):
        transport = Mock(get_extra_info=Mock(side_effect={"sockname": name}.get))
        assert find_local(make_mocked_request("GET", "/", transport=transport)) == local


def test_no_secret_is_in_the_representation(request_: ConsoleRequest) -> None:
    shown = repr((Answer({}, session_token="gws_secret", kept={"x": "kept"}), request_.fields))
    assert "gws_secret" not in shown
    assert "kept" not in shown
    assert "laptop" not in repr(replace(request_, caller=None))


def test_a_holder_may_make_600_changes_an_hour(tmp_path: Path) -> None:
    """test_adversary.py has what follows beyond them."""
    changes = ConsoleState(BooksThread(tmp_path / "gateway.db")).changes
    waits = [changes.take(1) for _ in range(601)]
    assert waits[:600] == [0] * 600
    assert 0 < waits[600] <= 3600
