"""State that requests share: the books' thread, password hashes, failures, lag; error replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.base.turns import spawn
from gateway.extras.console.errors import explain
from gateway.extras.console.routes import Answer
from gateway.extras.console.state import (
    LOCK_WAIT_MS,
    MIN_LOCK_WAIT_MS,
    BooksThread,
    ConsoleState,
    ProcessState,
)
from gateway.extras.signins.browsers import make_session_cookie
from gateway.ledger.opening import open_books
from gateway.ledger.records import Actor
from tests.extras.console.handler_kit import make_post, open_books_thread

ACTOR = Actor("alice", "192.0.2.1")
PASSWORD = "correct horse battery"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    open_books(tmp_path / "gateway.db", create=True).close()
    return tmp_path / "gateway.db"


@pytest.fixture
async def thread(path: Path) -> AsyncIterator[BooksThread]:
    async with open_books_thread(path) as opened:
        yield opened


# ---- the books' thread ---------------------------------------------------------------------------


async def test_the_books_know_who_is_signed_in(thread: BooksThread) -> None:
    account = await thread.run(ACTOR, lambda books: books.accounts.create("alice"))
    request = make_post(thread, account, "/", {}, b'{"name": "laptop"}')
    signed_out = replace(request, caller=None)
    assert await request.run(lambda books: books.actor) == Actor("alice", "127.0.0.1")
    assert await signed_out.run(lambda books: books.actor) == Actor("nobody", "127.0.0.1")
    shown = repr(
        (
            Answer({}, cookies=(make_session_cookie("gws_secret"),), kept={"x": "kept"}),
            request.fields,
        )
    )
    assert not [one for one in ("gws_secret", "kept", "laptop") if one in shown + repr(signed_out)]


async def test_the_time_in_the_queue_counts_as_waiting_for_the_lock(
    thread: BooksThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a queue of functions does not wait a second each."""
    waits: list[int] = []
    await thread.run(ACTOR, lambda books: setattr(books, "wait_for_others", waits.append))
    now = iter([100.0, 100.25, 200.0, 260.0])
    clock = SimpleNamespace(monotonic=lambda: next(now))
    monkeypatch.setattr("gateway.extras.console.state.time", clock)
    for _ in range(2):
        await thread.run(ACTOR, lambda _: None)
    assert waits == [LOCK_WAIT_MS - 250, MIN_LOCK_WAIT_MS]


async def test_closing_waits_for_what_was_submitted(path: Path, tmp_path: Path) -> None:
    thread = BooksThread(path)
    running = asyncio.get_running_loop().create_task(thread.run(ACTOR, lambda _: "done"))
    await asyncio.sleep(0)
    await thread.close()
    assert await running == "done"
    await BooksThread(tmp_path / "unused.db").close()
    assert not (tmp_path / "unused.db").exists()


# ---- the process, limits -------------------------------------------------------------------------


async def test_a_loop_that_was_blocked_is_seen() -> None:
    began = time.monotonic()
    process = ProcessState(tick_seconds=0.05)
    assert process.loop_lag_ms is None
    running = spawn(process.measure_loop_lag(), name="lag")
    await asyncio.sleep(0)
    time.sleep(0.15)  # noqa: ASYNC251 - the fault that is looked for
    async with asyncio.timeout(60):
        while process.loop_lag_ms is None:  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)
    running.cancel()
    assert 80 <= process.loop_lag_ms <= (time.monotonic() - began) * 1000 - 50, "without the tick"


def test_a_holder_may_make_600_changes_an_hour(tmp_path: Path) -> None:
    changes = ConsoleState(BooksThread(tmp_path / "gateway.db")).changes
    waits = [changes.take(1) for _ in range(601)]
    assert waits[:600] == [0] * 600
    assert 0 < waits[600] <= 3600


def test_an_error_of_our_own_is_told_without_its_words() -> None:
    error = explain("req_1", RuntimeError("hush"))
    assert (error.status, error.code, "hush" in error.message) == (500, "internal_error", False)
