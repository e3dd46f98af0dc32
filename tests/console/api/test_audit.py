"""The audit, run from the console, and the log of events."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

import pytest

from gateway.admin import accounts
from gateway.ledger.records import Actor, LedgerError
from gateway.ledger.sqlite.books import SqliteBooks
from tests.admin.kit import add_key, get
from tests.console.kit import (
    API,
    HOLDER,
    OPERATOR,
    OTHER,
    Console,
    Reply,
    make_database,
    open_console,
)

AUDIT_FIELDS: Final = {
    "at", "ok", "accounts", "entries", "pending", "interrupted", "unsettled", "to_settle",
    "problems",
}  # fmt: skip
EVENT_FIELDS: Final = {
    "id", "at", "actor", "action", "account", "target", "detail", "address",
}  # fmt: skip


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as console:
        yield console


# ---- audit ---------------------------------------------------------------------------------------


async def test_audit_that_was_never_run_says_so(console: Console) -> None:
    report = await get(console, f"{API}/audit")
    assert set(report) == AUDIT_FIELDS
    assert (report.pop("to_settle"), report.pop("problems")) == ([], [])
    assert set(report.values()) == {None}


async def test_audit_proves_everything_and_is_remembered(console: Console) -> None:
    ran = await console.post(f"{API}/audit", as_=OPERATOR)
    assert (ran.status, set(ran.json)) == (200, AUDIT_FIELDS)
    assert (ran.json["ok"], ran.json["accounts"], ran.json["entries"]) == (True, 3, 3)
    assert await get(console, f"{API}/audit") == ran.json
    assert (await get(console, f"{API}/health"))["full_audit"] == {"ok": True, "at": ran.json["at"]}


async def test_audit_by_another_process_counts(console: Console) -> None:
    """A successful audit by another process is known by its checkpoint."""
    with console.open_books() as books:
        accounts.credit(books, HOLDER, 1, note="something new to prove")
        before = await get(console, f"{API}/health")
        assert before["full_audit"] == {"ok": None, "at": None}, "the start-up check is another"
        await asyncio.sleep(0.002)
        books.audit()
    after = await get(console, f"{API}/health")
    assert after["full_audit"]["ok"]
    assert after["full_audit"]["at"] > after["startup_check"]["at"] == before["startup_check"]["at"]


async def test_audit_tells_a_mismatch(console: Console) -> None:
    change = "UPDATE accounts SET balance_nano = balance_nano {} 1 WHERE name = 'holder'"
    with console.open_books() as books, books.changing() as connection:
        connection.execute(change.format("+"))
    ran = await console.post(f"{API}/audit", as_=OPERATOR)
    assert (ran.status, ran.json["ok"], len(ran.json["problems"])) == (200, False, 1)
    assert (await get(console, f"{API}/health"))["full_audit"] == {
        "ok": False,
        "at": ran.json["at"],
    }
    with console.open_books() as books, books.changing() as connection:
        connection.execute(change.format("-"))


async def test_audits_run_one_at_a_time_and_beside_all_else(console: Console) -> None:
    """An audit that waits for the database delays neither the console nor callers."""
    models = {"Authorization": f"Bearer {await add_key(console)}"}
    await console.sign_in(OPERATOR)
    replies: asyncio.Queue[Reply] = asyncio.Queue()

    async def ask() -> None:
        replies.put_nowait(await console.post(f"{API}/audit", as_=OPERATOR))

    with console.open_books() as books:
        accounts.credit(books, HOLDER, 1, note="something new to prove")
        async with asyncio.TaskGroup() as group:
            with books.changing():  # so that the checkpoint cannot be written
                for _ in range(3):
                    group.create_task(ask())
                refused = [await replies.get() for _ in range(2)]
                assert {one.refusal for one in refused} == {(409, "audit_running", None)}
                assert (await console.get(f"{API}/accounts", as_=OPERATOR)).status == 200
                assert (await console.ask("GET", "/v1/models", headers=models)).status == 200
            first = await replies.get()
    assert (first.status, first.json["ok"]) == (200, True)
    assert (await console.post(f"{API}/audit", as_=OPERATOR)).status == 200


def test_a_statement_that_nobody_waits_for_is_given_up(tmp_path: Path) -> None:
    """A statement of a cancelled request is interrupted; otherwise the process could not end."""
    endless = """
        WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n
    """
    looks = iter([False, False, True])
    with SqliteBooks(make_database(tmp_path)) as books:
        books.give_up_when(lambda: next(looks))
        with pytest.raises(LedgerError), books.reading() as connection:
            connection.execute(endless).fetchall()


# ---- the log -------------------------------------------------------------------------------------


async def test_log_comes_in_pages_the_newest_first(console: Console) -> None:
    with console.open_books() as books:
        books.actor = Actor("tester", "192.0.2.7")
        for number in range(5):
            books.note("test.done", account=OTHER, target=f"t{number}", detail=f"d{number}")
    first = await get(console, f"{API}/audit/log?search=TEST.d&limit=3")
    rest = await get(
        console, f"{API}/audit/log?search=TEST.d&limit=3&cursor={first['next_cursor']}"
    )
    events = first["events"] + rest["events"]
    assert (first["count"], rest["count"], rest["next_cursor"]) == (5, 5, None)
    assert [set(one) for one in events] == [EVENT_FIELDS] * 5
    assert [one["target"] for one in events] == ["t4", "t3", "t2", "t1", "t0"]
    latest = events[0]
    assert (latest["actor"], latest["account"], latest["detail"]) == ("tester", OTHER, "d4")
    assert latest["address"] == "192.0.2.7"
    everything = await get(console, f"{API}/audit/log")
    assert everything["count"] == len(everything["events"]) > 5
    refused = await console.get(f"{API}/audit/log?cursor=WyJ4Il0", as_=OPERATOR)
    assert refused.refusal == (400, "invalid_field", "cursor")


@pytest.mark.parametrize(
    ("search", "found"),
    [
        ("50%25", ["50% off"]),
        ("5%25off", []),
        ("_", ["a_b"]),
        ("%5C", ["back\\slash"]),
        ("back", ["back\\slash"]),
        ("ALI", ["ali"]),
        ("%ED%A0%80", []),
        ("detail", []),
    ],
)
async def test_log_is_searched_for_what_was_typed(
    console: Console, search: str, found: list[str]
) -> None:
    """A search covers actor, action, account and target, not details, and has no wildcards."""
    with console.open_books() as books:
        for target in ("50% off", "a_b", "back\\slash", "plain"):
            books.note("test", account=None, target=target, detail="detail")
        books.actor = Actor("ali")
        books.note("test", account=None, detail="detail")
    log = await get(console, f"{API}/audit/log?search={search}")
    told = [one["target"] or one["actor"] for one in log["events"] if one["action"] == "test"]
    assert told == found
