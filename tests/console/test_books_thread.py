"""The books' thread: one function after the other, as the one who acts, in little time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.admin import accounts
from gateway.console.state import LOCK_WAIT_MS, MIN_LOCK_WAIT_MS, BooksThread
from gateway.ledger.records import Actor, LedgerError
from gateway.ledger.sql.books.books import Books
from tests.console.handler_kit import open_books_thread

ACTOR = Actor("alice", "192.0.2.1")


@pytest.fixture
async def thread(tmp_path: Path) -> AsyncIterator[BooksThread]:
    accounts.open_books(tmp_path / "gateway.db", create=True).close()
    async with open_books_thread(tmp_path / "gateway.db") as opened:
        yield opened


async def test_functions_run_one_after_the_other_in_one_thread(thread: BooksThread) -> None:
    order: list[str] = []
    first_may_end = threading.Event()

    def first(_: Books) -> int:
        assert first_may_end.wait(60)
        order.append("first")
        return threading.get_ident()

    def second(_: Books) -> int:
        order.append("second")
        return threading.get_ident()

    running = [asyncio.ensure_future(thread.run(ACTOR, one)) for one in (first, second)]  # noqa: TID251
    first_may_end.set()
    ran_in = set(await asyncio.gather(*running))
    assert order == ["first", "second"]
    assert ran_in != {threading.get_ident()}
    assert len(ran_in) == 1


async def test_each_function_sees_who_acts(thread: BooksThread) -> None:
    for actor in (ACTOR, Actor("bob", "192.0.2.2")):
        assert await thread.run(actor, lambda books: books.actor) == actor


async def test_what_a_function_raises_is_raised_here_and_the_thread_goes_on(
    thread: BooksThread,
) -> None:
    def fail(_: Books) -> None:
        raise LedgerError("disk")

    with pytest.raises(LedgerError, match="disk"):
        await thread.run(ACTOR, fail)
    assert await thread.run(ACTOR, lambda _: 1) == 1


async def test_the_time_in_the_queue_counts_as_waiting_for_the_lock(
    thread: BooksThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a queue of functions does not wait a second each."""
    waits: list[int] = []
    await thread.run(ACTOR, lambda books: setattr(books, "wait_for_others", waits.append))
    now = iter([100.0, 100.25, 200.0, 260.0])
    clock = SimpleNamespace(monotonic=lambda: next(now))
    monkeypatch.setattr("gateway.console.state.time", clock)
    for _ in range(2):
        await thread.run(ACTOR, lambda _: None)
    assert waits == [LOCK_WAIT_MS - 250, MIN_LOCK_WAIT_MS]


async def test_closing_waits_for_what_was_submitted(tmp_path: Path) -> None:
    accounts.open_books(tmp_path / "gateway.db", create=True).close()
    thread = BooksThread(tmp_path / "gateway.db")
    running = asyncio.ensure_future(thread.run(ACTOR, lambda _: "done"))  # noqa: TID251
    await asyncio.sleep(0)
    await thread.close()
    assert await running == "done"


async def test_one_that_was_never_used_makes_no_file(tmp_path: Path) -> None:
    await BooksThread(tmp_path / "gateway.db").close()
    assert not await asyncio.to_thread(lambda: [*tmp_path.iterdir()])
