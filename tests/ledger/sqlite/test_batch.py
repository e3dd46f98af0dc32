"""The transactions of a file: each request settled once; counts beside the books at no cost of money's."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.alert_records import KEPT_FAILURES
from gateway.ledger.base import Settlement
from gateway.ledger.serving.store import CallSum, Item, Observations, RefusalSum
from gateway.ledger.sqlite.batch import ROWS_AT_ONCE, NotPendingError, commit_requests, write_aside
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.serving.ledger import open_sqlite
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.contract.test_observations import make_failure
from tests.ledger.kit import (
    admission,
    assert_sound,
    find_key,
    make_place,
    query,
    settlement,
    void,
)
from tests.support.rows import each_row


@each_row("first", [settlement(100), void()])
@each_row("second", [settlement(900), void()])
async def test_a_request_is_settled_once_in_the_books(
    tmp_path: Path, first: Settlement, second: Settlement
) -> None:
    """A posted request cannot be voided, nor the other way round; the row stays as it is."""
    place = make_place(tmp_path, credit_nano=5000)
    async with open_sqlite(place.path) as ledger:
        hold = ledger.hold(find_key(ledger, place), admission())
        await ledger.settle(hold, first)
    rows = "SELECT state, cost_nano FROM requests"
    before = query(place.path, rows)
    with closing(connect(place.path)) as connection, pytest.raises(NotPendingError):
        commit_requests(connection, [Item(hold, insert=False, settlement=second)], 1, set())
    assert query(place.path, rows) == before
    assert_sound(place.path)


FULL = 2
"""The value of `PRAGMA synchronous` that makes commits wait for the disk."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(tmp_path / "gateway.db", create=True)) as connection:
        yield connection


def make_refusals(count: int, account_id: int | None = None) -> Observations:
    return Observations(
        {(10**6, account_id, "c", str(one)): RefusalSum(1, NOW_MS, "req_1") for one in range(count)}
    )


def count_rows(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM refusals").fetchone()
    return int(count)


def test_more_rows_than_fit_into_a_statement_are_written(connection: sqlite3.Connection) -> None:
    write_aside(connection, make_refusals(ROWS_AT_ONCE + 1), NOW_MS)
    assert count_rows(connection) == ROWS_AT_ONCE + 1


def test_a_bad_row_leaves_nothing_behind_and_commits_wait_for_the_disk_again(
    connection: sqlite3.Connection,
) -> None:
    bad = make_refusals(1)
    bad.calls[10**6, "p", "m"] = CallSum(calls=1, failures=2)
    with pytest.raises(sqlite3.IntegrityError):
        write_aside(connection, bad, NOW_MS)
    assert (count_rows(connection), connection.in_transaction) == (0, False)
    assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)


def test_only_observations_do_without_the_disk(connection: sqlite3.Connection) -> None:
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    write_aside(connection, make_refusals(1), NOW_MS)
    assert seen[0] == "PRAGMA synchronous = NORMAL"
    assert seen[-2:] == ["COMMIT", "PRAGMA synchronous = FULL"]
    assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)


def test_an_account_that_does_not_exist_is_refused(connection: sqlite3.Connection) -> None:
    with pytest.raises(sqlite3.IntegrityError):
        write_aside(connection, make_refusals(1, account_id=99), NOW_MS)


def test_the_latest_failures_are_kept(connection: sqlite3.Connection) -> None:
    for start in range(0, KEPT_FAILURES + 1000, 1000):
        failures = [make_failure(start + n) for n in range(1000)]
        write_aside(connection, Observations(failures=failures), NOW_MS)
    figures = connection.execute(
        "SELECT count(*), min(failed_ms), max(failed_ms) FROM upstream_failures"
    )
    assert figures.fetchone() == (KEPT_FAILURES, 1000, KEPT_FAILURES + 999)
