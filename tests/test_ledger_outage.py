"""A ledger that cannot be written: nobody spends, nobody waits long, nothing is lost."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from ledger_kit import (
    Place,
    admission,
    assert_sound,
    charge,
    find_key,
    make_place,
    query,
    run_sql,
    settlement,
    until,
    void,
)

from gateway.errors import LedgerUnavailable
from gateway.ledger.base import Account, Hold, Key
from gateway.ledger.batch import Item
from gateway.ledger.hop import Report, run_hop
from gateway.ledger.schema import connect
from gateway.ledger.sqlite import SqliteLedger
from gateway.ledger.writer import RETRY_SECONDS

CREDIT = 10**12
SHORT_SECONDS = 0.3
"""In place of the five seconds that a caller waits for a commit."""

FULL = "PRAGMA max_page_count = 1"
"""SQLite takes the present size instead, so the next page is a real SQLITE_FULL."""

BREAK = {"full": FULL, "read-only": "PRAGMA query_only = ON"}
MEND = {"full": "PRAGMA max_page_count = 1000000", "read-only": "PRAGMA query_only = OFF"}


async def fill_last_page(ledger: SqliteLedger, key: Key) -> None:
    """Charge until the database has no page left to write to."""
    while ledger.writable:
        hold = ledger.hold(key, admission(1))
        done, _ = await asyncio.wait((ledger.settle(hold, settlement(1)),), timeout=0.05)
        if not done:
            break


async def take_down(ledger: SqliteLedger, key: Key, how: str) -> None:
    await run_sql(ledger, BREAK[how])
    if how == "full":
        await fill_last_page(ledger, key)
    else:
        ledger.hold(key, admission(1))
    await until(lambda: not ledger.writable, 2)


@pytest.mark.parametrize("how", BREAK)
async def test_outage_refuses_new_holds_and_ends_by_itself(tmp_path: Path, how: str) -> None:
    """503 at once while it lasts; what was queued is committed once it is over."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        await take_down(ledger, key, how)
        started = time.perf_counter()
        with pytest.raises(LedgerUnavailable) as refusal:
            ledger.hold(key, admission())
        assert time.perf_counter() - started < 0.1
        assert (refusal.value.status, refusal.value.retry_after_seconds) == (503, 1)
        await run_sql(ledger, MEND[how])
        await until(lambda: ledger.writable, 2)
        await charge(ledger, key, 5)
    assert_sound(place.path)


async def test_json_reply_that_cannot_be_charged_is_voided(tmp_path: Path) -> None:
    """Its waiter is told not to retry, and nothing is charged, then or later."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path, commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission(id_="chatcmpl-json"))
        await ledger.wait_admitted(hold)
        await run_sql(ledger, BREAK["read-only"])
        with pytest.raises(LedgerUnavailable) as refusal:
            await ledger.settle(hold, settlement(700))
        assert refusal.value.should_retry is False
        await run_sql(ledger, MEND["read-only"])
        await until(lambda: hold.resolved, 2)
        assert (key.account.balance_nano, key.account.held_nano) == (CREDIT, 0)
    assert query(place.path, "SELECT state, outcome, cost_nano, status FROM requests") == [
        ("voided", "ledger_error", 0, 503)
    ]
    assert_sound(place.path)


async def test_charge_of_a_stream_waits_for_the_ledger(tmp_path: Path) -> None:
    """The stream's waiter is told after the same time, but what was delivered is charged."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path, commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission(stream=True))
        await ledger.wait_admitted(hold)
        await run_sql(ledger, BREAK["read-only"])
        with pytest.raises(LedgerUnavailable):
            await ledger.settle(hold, settlement(700))
        assert (key.account.balance_nano, key.account.held_nano) == (CREDIT, 1000)
        await run_sql(ledger, MEND["read-only"])
        await until(lambda: hold.resolved, 2)
        assert (key.account.balance_nano, key.account.held_nano) == (CREDIT - 700, 0)
    assert_sound(place.path)


async def test_admission_and_void_wait_no_longer_than_told(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path, commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, place)
        first, second = ledger.hold(key, admission()), ledger.hold(key, admission())
        await run_sql(ledger, BREAK["read-only"])
        started = time.perf_counter()
        with pytest.raises(LedgerUnavailable):
            await ledger.wait_admitted(first)
        with pytest.raises(LedgerUnavailable):
            await ledger.settle(second, void())
        assert SHORT_SECONDS <= time.perf_counter() - started < 4 * SHORT_SECONDS + 0.5
        await run_sql(ledger, MEND["read-only"])
        await ledger.settle(first, void())
        assert key.account.held_nano == 0
    assert query(place.path, "SELECT DISTINCT state, outcome FROM requests") == [
        ("voided", "upstream_error")
    ]


async def test_lock_of_another_process_is_an_outage_only_while_it_lasts(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        with closing(connect(place.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            hold = ledger.hold(key, admission())
            future = ledger.settle(hold, settlement(9))
            await until(lambda: not ledger.writable, 3)
            assert not future.done()
            other.execute("ROLLBACK")
        await future
        assert ledger.writable
        assert key.account.balance_nano == CREDIT - 9


async def test_short_lock_of_another_process_is_no_outage(tmp_path: Path) -> None:
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        with closing(connect(place.path)) as other:
            other.execute("BEGIN IMMEDIATE")
            future = ledger.settle(ledger.hold(key, admission()), settlement(9))
            with pytest.raises(TimeoutError):
                await until(lambda: not ledger.writable, 0.3)
            assert not future.done()
            other.execute("ROLLBACK")
        await future


async def test_broken_disk_is_tried_now_and_then(tmp_path: Path) -> None:
    """Some times a second, so that it is noticed at once when it is back; not all the time."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    tries = 0

    def count_tries() -> int:
        nonlocal tries
        tries += 1
        return tries

    async with SqliteLedger.open(place.path, clock=count_tries) as ledger:
        key = find_key(ledger, place)
        await take_down(ledger, key, "read-only")
        before = tries
        await asyncio.sleep(3 * RETRY_SECONDS)
        assert 1 <= tries - before <= 4
        await run_sql(ledger, MEND["read-only"])


async def test_end_during_an_outage_gives_up_in_time(tmp_path: Path) -> None:
    """Closing waits for the ledger as long as a caller would; then whoever waits is told."""
    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path, commit_seconds=SHORT_SECONDS) as ledger:
        key = find_key(ledger, place)
        await run_sql(ledger, BREAK["read-only"])
        hold = ledger.hold(key, admission(stream=True))
        future = ledger.settle(hold, settlement(5))
        started = time.perf_counter()
    assert time.perf_counter() - started < 2
    assert isinstance(future.exception(), LedgerUnavailable)
    assert query(place.path, "SELECT count(*) FROM requests") == [(0,)]


async def test_a_writer_that_fails_leaves_nobody_waiting(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A bug of ours in the writer: whoever waits is told, nobody spends, and it is in the log."""

    def fail() -> int:
        raise RuntimeError("a bug")

    place = make_place(tmp_path, credit_nano=CREDIT)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        hold = ledger.hold(key, admission())
        ledger._writer._clock = fail
        with pytest.raises(LedgerUnavailable):
            await ledger.settle(hold, settlement(5))
        with pytest.raises(LedgerUnavailable):
            ledger.hold(key, admission())
    assert "task ledger-writer failed" in caplog.text


class FailingConnection(sqlite3.Connection):
    """Fails at the n-th statement as a dying disk does; afterwards works again."""

    fail_at = 0
    statements = 0

    def execute(self, *arguments: object) -> sqlite3.Cursor:
        self.statements += 1
        if self.statements == self.fail_at:
            error = sqlite3.OperationalError("disk I/O error")
            error.sqlite_errorcode = sqlite3.SQLITE_IOERR_WRITE
            raise error
        return super().execute(*arguments)  # type: ignore[arg-type] # passes through


def hop_failing_at(place: Place, items: list[Item], statement: int) -> tuple[Report, Report]:
    """What a hop reports whose n-th statement fails, and the next one, which works."""
    with closing(
        sqlite3.connect(place.path, factory=FailingConnection, isolation_level=None)
    ) as connection:
        connection.fail_at = statement
        first = run_hop(connection, None, items, 1)
        rest = [item for item in items if item not in first.done]
        return first, run_hop(connection, None, rest, 1)


def test_failure_at_any_statement_commits_all_or_nothing(tmp_path: Path) -> None:
    """However far a batch got: tried again it is whole, and charged once."""
    for statement in range(1, 10):
        folder = tmp_path / str(statement)
        folder.mkdir()
        place = make_place(folder, credit_nano=CREDIT)
        items = [Item(hold, insert=True, settlement=settlement(5)) for hold in make_holds(place)]
        first, second = hop_failing_at(place, items, statement)
        assert first.refused == second.refused == []
        assert (first.unavailable is None) == bool(first.done), f"statement {statement}"
        assert len(first.done) + len(second.done) == 3
        assert query(place.path, "SELECT balance_nano FROM accounts") == [(CREDIT - 15,)]
        assert_sound(place.path)


def make_holds(place: Place) -> list[Hold]:
    account = Account(1, "a", suspended=False, balance_nano=CREDIT)
    key = Key(place.key_id, account, "", None, None, None, None, None, None, None)
    return [Hold(admission(), account, key, 1000) for _ in range(3)]
