"""One round on the connection: a batch, changes of others, and the write-ahead log."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.ledger.base import Account, Hold, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books, open_ledger
from gateway.ledger.serving.queue import LINGER_SECONDS, Item, Report
from gateway.ledger.serving.writer import POLL_SECONDS
from gateway.ledger.sqlite.folds import fold
from gateway.ledger.sqlite.polls import WalKeeper
from gateway.ledger.sqlite.schema import connect, connect_reader
from gateway.ledger.sqlite.serving import open_sqlite
from gateway.ledger.sqlite.store import SqliteStore, is_busy
from tests.ledger.contract.kit import admission, charge, settlement, until
from tests.ledger.faults import Faults, make_error
from tests.ledger.kit import Place, assert_sound, find_key, make_place, query
from tests.support.rows import each_row

ALARM_BYTES, LARGE_BYTES, RETRY_SECONDS = 64 << 20, 8 << 20, 5.0

pytestmark = pytest.mark.usefixtures("quick_polls")

CREDIT = 10**12


class DyingDisk(sqlite3.Connection):
    """Fails at the n-th statement; afterwards works again."""

    fail_at = 0
    code = sqlite3.SQLITE_IOERR_WRITE
    statements = 0

    def execute(self, *arguments: object) -> sqlite3.Cursor:
        self.statements += 1
        if self.statements == self.fail_at:
            raise make_error(self.code)
        return super().execute(*arguments)  # type: ignore[arg-type] # passes through


def make_store() -> SqliteStore:
    """Make one whose work is done in this thread, on any connection, with all files in place."""
    files: Any = SimpleNamespace(check=lambda **_: None, path=Path("gateway.db"))
    unused: Any = None
    return SqliteStore(unused, unused, unused, files, clock=lambda: 1)


def commit(store: SqliteStore, connection: sqlite3.Connection, items: Sequence[Item]) -> Report:
    return store._run_round(connection, items=items, now_ms=1, polls=False)


def fail_and_retry(place: Place, items: Sequence[Item], statement: int) -> tuple[Report, Report]:
    """Return the reports of a round whose n-th statement fails, and of the next one."""
    with closing(sqlite3.connect(place.path, factory=DyingDisk, isolation_level=None)) as disk:
        store, disk.fail_at = make_store(), statement
        first = commit(store, disk, items)
        return first, commit(store, disk, [item for item in items if item not in first.done])


def test_failure_at_any_statement_commits_all_or_nothing(tmp_path: Path) -> None:
    """However far a batch got: tried again it is whole, and charged once."""
    for statement in range(1, 12):
        folder = tmp_path / str(statement)
        folder.mkdir()
        place = make_place(folder, credit_nano=CREDIT)
        items = [Item(hold, insert=True, settlement=settlement(5)) for hold in make_holds(place)]
        first, second = fail_and_retry(place, items, statement)
        assert first.refused == second.refused == []
        assert (first.unavailable is None) == bool(first.done), f"statement {statement}"
        assert len(first.done) + len(second.done) == 3
        assert query(place.path, "SELECT balance_nano FROM accounts") == [(CREDIT - 15,)]
        assert_sound(place.path)


@each_row(
    ("code", "expected"),
    [
        (sqlite3.SQLITE_BUSY, True),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, True),
        (sqlite3.SQLITE_LOCKED, False),
        (sqlite3.SQLITE_IOERR_WRITE, False),
        (sqlite3.SQLITE_FULL, False),
    ],
)
def test_only_a_lock_of_another_process_is_brief(
    place: Place, code: int, *, expected: bool
) -> None:
    """The next try may work at once; any other failure makes the writer pause."""
    assert is_busy(make_error(code)) is expected
    items = [Item(hold, insert=True, settlement=None) for hold in make_holds(place)]
    with closing(sqlite3.connect(place.path, factory=DyingDisk)) as disk:
        disk.fail_at, disk.code = 1, code
        report = commit(make_store(), disk, items)
    assert report.unavailable is not None
    assert (report.is_brief, report.done, report.refused) == (expected, [], [])


def test_nothing_is_written_any_more_to_a_damaged_database(place: Place) -> None:
    """A void that touches other pages would work, and the next request would be admitted for nothing."""
    items = [Item(hold, insert=True, settlement=None) for hold in make_holds(place)]
    with closing(sqlite3.connect(place.path, factory=DyingDisk)) as disk:
        disk.fail_at, disk.code, store = 1, sqlite3.SQLITE_CORRUPT, make_store()
        reports = [commit(store, disk, items) for _ in range(2)]
    for report in reports:
        assert "gateway.db: it is damaged; restore a backup" in str(report.unavailable)
        assert (report.is_brief, report.done, report.refused) == (False, [], [])


def make_holds(place: Place) -> list[Hold]:
    account = Account(1, "a", suspended=False, balance_nano=CREDIT)
    key = Key(place.key_id, account, KeyTerms(), Line(place.key_id))
    return [Hold(admission(), account, key, 1000) for _ in range(3)]


async def test_spending_of_many_keys_is_not_kept_and_is_read_again(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.ledger.sqlite.store.MAX_KNOWN_LINES", 0)
    async with open_sqlite(place.path) as ledger:
        key, known = find_key(ledger, place), cast("Any", ledger._store)._known.spent_nano
        for spent_nano in (5, 10, 15):
            await charge(ledger, key, 5)
            assert key.spent_nano == spent_nano
            await until(lambda: not known)
            with open_books(place.path) as books:
                books.change("INSERT INTO changes (kind, id) VALUES ('key', ?)", (place.key_id,))
            await ledger.refresh()
            assert key.spent_nano == spent_nano


async def test_changes_are_cleared_at_the_start_and_their_numbers_never_return(
    tmp_path: Path,
) -> None:
    place = make_place(tmp_path, credit_nano=5000)
    with open_books(place.path) as books:
        for _ in range(8):
            books.entries.credit("a", 250)
    (before,) = query(place.path, "SELECT max(seq) FROM changes")
    async with open_ledger(place.path):
        assert query(place.path, "SELECT count(*) FROM changes") == [(0,)]
        with open_books(place.path) as books:
            books.entries.credit("a", 1)
        (after,) = query(place.path, "SELECT min(seq) FROM changes")
    assert isinstance(before[0], int)
    assert after == (before[0] + 1,)


def test_the_server_looks_often_enough_for_a_second() -> None:
    """Others' changes are to be in force within a second, which a busy machine may exceed."""
    assert 2 * (POLL_SECONDS + LINGER_SECONDS) <= 1


def measure(place: Place) -> int:
    return place.path.with_name("gateway.db-wal").stat().st_size


def grow(connection: sqlite3.Connection) -> None:
    """Fill the log, as a busy hour behind a long reader does, and take the pages back."""
    connection.execute("PRAGMA wal_autocheckpoint = 0")
    connection.execute("BEGIN")
    connection.execute("CREATE TABLE ballast (x)")
    connection.execute("INSERT INTO ballast VALUES (zeroblob(?))", (LARGE_BYTES + 4096,))
    connection.execute("DROP TABLE ballast")
    connection.execute("COMMIT")


async def test_large_log_is_cut_when_nothing_is_to_do(place: Place) -> None:
    async with open_sqlite(place.path) as ledger:
        with closing(connect(place.path)) as other:
            grow(other)
            assert measure(place) >= LARGE_BYTES
            await until(lambda: measure(place) == 0)
        await charge(ledger, find_key(ledger, place), 5)


def test_log_is_left_alone_while_small_or_busy_or_just_tried(place: Place) -> None:
    now = 0.0
    with closing(connect(place.path)) as writer, closing(connect_reader(place.path)) as reader:
        keeper = WalKeeper(place.path, lambda: now)
        writer.execute("UPDATE accounts SET suspended = 1")
        keeper.look_after(writer, idle=True)
        assert measure(place) > 0
        grow(writer)
        keeper.look_after(writer, idle=False)
        assert measure(place) >= LARGE_BYTES
        writer.execute("PRAGMA busy_timeout = 5")
        reader.execute("BEGIN").execute("SELECT * FROM accounts").fetchall()
        writer.execute("UPDATE accounts SET suspended = 0")
        keeper.look_after(writer, idle=True)
        assert measure(place) >= LARGE_BYTES, "a reader is in the way"
        reader.execute("ROLLBACK")
        now = RETRY_SECONDS / 2
        keeper.look_after(writer, idle=True)
        assert measure(place) >= LARGE_BYTES, "not yet again"
        now = RETRY_SECONDS
        for _ in range(2):
            keeper.look_after(writer, idle=True)
            assert measure(place) == 0


def test_missing_log_is_none(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        WalKeeper(tmp_path / "gateway.db").look_after(connection, idle=True)


def test_alarm_sounds_once_for_every_time_it_grows(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log, keeper = tmp_path / "gateway.db-wal", WalKeeper(tmp_path / "gateway.db")
    log.touch()
    with closing(sqlite3.connect(":memory:")) as connection:
        for size in (0, ALARM_BYTES - 1, ALARM_BYTES, ALARM_BYTES + 1, 5, ALARM_BYTES):
            os.truncate(log, size)
            keeper.look_after(connection, idle=False)
    assert caplog.text.count("the write-ahead log has grown to 64 MiB") == 2


async def test_receipts_are_no_reader_that_lasts(place: Place, faults: Faults) -> None:
    """After a receipt was read, the log can still be cut to nothing."""
    async with open_sqlite(place.path, connector=faults.connect) as ledger:
        hold = await charge(ledger, find_key(ledger, place), 5)
        assert await ledger.read_receipt(hold.admission.request_id) is not None
        await faults.run(fold)  # before the writer does, which would write to the log
        await faults.run_sql("PRAGMA wal_checkpoint(TRUNCATE)")
        assert measure(place) == 0
        ledger.hold(find_key(ledger, place), admission())
