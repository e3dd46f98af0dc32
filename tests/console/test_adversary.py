"""Attacks over HTTP by somebody with a session, and a database locked by another process."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import accounts, checks, keys
from gateway.console.api.keys import MAX_LIVE_KEYS
from gateway.console.state import MIN_LOCK_WAIT_MS
from gateway.ledger.sqlite.books import SqliteBooks
from tests.console.kit import API, HOLDER, OPERATOR, Console, open_console

BEYOND_DATES: Final = "9999-12-31T23:59:59-23:00"
"""A time in the year 10000 in UTC, although its text says 9999."""


FEW_CHANGES = 5


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as console:
        yield console


@contextlib.contextmanager
def locked(console: Console) -> Iterator[None]:
    """Hold the database's write lock, like another process in the middle of a change."""
    with contextlib.closing(sqlite3.connect(console.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


# ---- what cannot be shown must not be kept -------------------------------------------------------


async def test_no_key_ends_where_dates_have_ended(console: Console) -> None:
    kept = (await console.post(f"{API}/keys", {"expires": "9999-12-31T23:59:59Z"})).json["key"]
    added = await console.post(f"{API}/keys", {"expires": BEYOND_DATES})
    edited = await console.patch(f"{API}/keys/{kept['id']}", {"expires": BEYOND_DATES})
    assert added.refusal == edited.refusal == (400, "invalid_field", "expires")
    assert (await console.get(f"{API}/keys")).json["keys"] == [kept]


async def test_no_code_ends_where_dates_have_ended(console: Console) -> None:
    body = {"amount": "1", "count": 1, "expires": BEYOND_DATES}
    reply = await console.post(f"{API}/codes", body, as_=OPERATOR, key="codes")
    assert reply.refusal == (400, "invalid_field", "expires")


async def test_a_key_has_a_list_of_models_of_a_size_for_the_memory(console: Console) -> None:
    names = [f"m{number}" for number in range(checks.MAX_MODELS + 1)]
    reply = await console.post(f"{API}/keys", {"models": names})
    assert reply.refusal == (400, "invalid_field", "models")
    key = (await console.post(f"{API}/keys", {"models": names[1:]})).json["key"]
    edited = await console.patch(f"{API}/keys/{key['id']}", {"models": names})
    assert edited.refusal == (400, "invalid_field", "models")


# ---- who may -------------------------------------------------------------------------------------


async def test_a_suspended_operator_is_a_holder(console: Console) -> None:
    """A suspension takes effect at once, and the operator cannot undo it."""
    own = f"{API}/accounts/{console.account_id(OPERATOR)}"
    secret_key = (await console.post(f"{API}/keys", {}, as_=HOLDER)).json["key"]["id"]
    assert (await console.get(own, as_=OPERATOR)).status == 200
    with console.open_books() as books:
        accounts.suspend(books, OPERATOR)
    for path, body in ((f"{own}/resume", None), (f"{own}/credit", {"amount": "1", "note": "n"})):
        reply = await console.post(path, body, as_=OPERATOR, key="k")
        assert reply.refusal == (404, "not_found", None)
    reply = await console.post(f"{API}/keys/{secret_key}/revoke", as_=OPERATOR)
    assert reply.refusal == (404, "not_found", None)
    account = (await console.get(f"{API}/session", as_=OPERATOR)).json["account"]
    assert (account["suspended"], account["operator"]) == (True, False)
    with console.open_books() as books:
        books.accounts.resume(OPERATOR)
    assert (await console.get(own, as_=OPERATOR)).json["operator"] is True


async def test_an_account_has_one_address(console: Console) -> None:
    """An account has one path; with a second one, an idempotency key would move money twice."""
    holder = console.account_id(HOLDER)
    body = {"amount": "5", "note": "n"}
    paths = [f"{API}/accounts/{number}/credit" for number in (holder, f"0{holder}", f"00{holder}")]
    replies = [await console.post(path, body, as_=OPERATOR, key="once") for path in paths]
    assert [reply.status for reply in replies] == [200, 404, 404]


@pytest.fixture
async def strict(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Console]:
    """A console that allows a holder few changes; test_state.py has the true number."""
    monkeypatch.setattr("gateway.console.state.MAX_CHANGES", FEW_CHANGES)
    async with open_console(tmp_path) as console:
        yield console


async def test_a_holder_cannot_fill_the_disk_with_changes(strict: Console) -> None:
    """Changes are limited; reading is not."""
    one = (await strict.post(f"{API}/keys", {})).json["key"]["id"]
    await rename(strict, one, HOLDER, FEW_CHANGES - 1)
    reply = await strict.patch(f"{API}/keys/{one}", {"name": "one more"})
    assert reply.refusal == (429, "too_many_tries", None)
    assert int(reply.headers["Retry-After"]) > 0
    assert (await strict.get(f"{API}/keys/{one}")).json["name"] == f"n{FEW_CHANGES - 2}"


async def test_an_operator_may_change_as_much_as_there_is(strict: Console) -> None:
    one = (await strict.post(f"{API}/keys", {}, as_=OPERATOR)).json["key"]["id"]
    await rename(strict, one, OPERATOR, FEW_CHANGES + 1)


async def rename(console: Console, key_id: str, name: str, times: int) -> None:
    for number in range(times):
        reply = await console.patch(f"{API}/keys/{key_id}", {"name": f"n{number}"}, as_=name)
        assert reply.status == 200, number


async def test_keys_that_work_are_a_bounded_number(console: Console) -> None:
    with console.open_books() as books, books.changing():
        *_, last = [keys.add_key(books, HOLDER) for _ in range(MAX_LIVE_KEYS)]
    reply = await console.post(f"{API}/keys", {})
    assert reply.refusal == (409, "too_many_keys", None)
    assert (await console.post(f"{API}/keys", {}, as_=OPERATOR)).status == 201
    await console.post(f"{API}/keys/{last.key.id}/revoke")
    assert (await console.post(f"{API}/keys", {})).status == 201


async def test_a_search_for_nul_finds_nothing(console: Console) -> None:
    """SQLite ends a pattern at a NUL, so it would match everything."""
    reply = await console.get(f"{API}/audit/log?search=%00", as_=OPERATOR)
    assert (reply.status, reply.json["count"], reply.json["events"]) == (200, 0, [])


# ---- the database is somebody else's -------------------------------------------------------------


async def test_changes_do_not_wait_for_a_lock_one_after_the_other(
    console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first waits as long as it may; its wait counts for those behind it in the queue."""
    count, wait_ms = 8, 2 * MIN_LOCK_WAIT_MS
    waits: list[int] = []
    wait_for_others = SqliteBooks.wait_for_others

    def note(books: SqliteBooks, ms: int) -> None:
        waits.append(ms)
        wait_for_others(books, ms)

    monkeypatch.setattr("gateway.console.state.LOCK_WAIT_MS", wait_ms)
    await console.get(f"{API}/keys", as_=HOLDER)
    monkeypatch.setattr(SqliteBooks, "wait_for_others", note)
    with locked(console):
        *changes, page = await asyncio.gather(
            *(console.post(f"{API}/keys", {"name": "n"}) for _ in range(count)),
            console.get(f"{API}/keys"),
        )
    assert {reply.refusal for reply in changes} == {(503, "unavailable", None)}
    assert (page.status, page.json["count"]) == (200, 0)
    assert max(waits) <= wait_ms
    assert waits.count(MIN_LOCK_WAIT_MS) >= count - 2
    assert (await console.post(f"{API}/keys", {"name": "n"})).status == 201
