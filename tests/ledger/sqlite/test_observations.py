"""Counts beside the books: written whole or not at all, never at the cost of money's; old ones are forgotten."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.alert_records import KEPT_FAILURES, KEPT_MS, SLOT_MS
from gateway.ledger.serving.store import CallSum, Observations, RefusalSum
from gateway.ledger.sqlite.batch import ROWS_AT_ONCE, write_aside
from gateway.ledger.sqlite.schema import connect
from gateway.times import HOUR_MS
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.contract.test_observations import make_failure

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


COUNTS = "SELECT (SELECT count(*) FROM refusals), (SELECT count(*) FROM upstream_calls)"


def test_the_latest_failures_are_kept(connection: sqlite3.Connection) -> None:
    for start in range(0, KEPT_FAILURES + 1000, 1000):
        failures = [make_failure(start + n) for n in range(1000)]
        write_aside(connection, Observations(failures=failures), NOW_MS)
    figures = connection.execute(
        "SELECT count(*), min(failed_ms), max(failed_ms) FROM upstream_failures"
    )
    assert figures.fetchone() == (KEPT_FAILURES, 1000, KEPT_FAILURES + 999)


def test_a_sum_keeps_its_last_failure_whole(connection: sqlite3.Connection) -> None:
    """A later one without a status leaves none of an earlier one; calls that work leave it alone."""
    slot = (NOW_MS // SLOT_MS, "p", "m")
    first, last = make_failure(NOW_MS, 500), make_failure(NOW_MS + 1, None)
    for sums in (CallSum(2, 1, first), CallSum(3, 2, last), CallSum(4)):
        write_aside(connection, Observations(calls={slot: sums}), NOW_MS)
    stored = connection.execute(
        "SELECT calls, failures, failed_ms, failed_request_id, failed_status, reason, url"
        " FROM upstream_calls"
    ).fetchall()
    told = (last.at_ms, last.request_id, None, last.reason, last.url)
    assert stored == [(9, 3, *told)]


def test_what_is_old_is_forgotten_with_the_next_write(connection: sqlite3.Connection) -> None:
    sums = Observations(calls={(NOW_MS // SLOT_MS, "p", "m"): CallSum(1)})
    sums.refusals[NOW_MS // HOUR_MS, None, "c", "m"] = RefusalSum(1, NOW_MS, "req_1")
    write_aside(connection, sums, NOW_MS)
    for later_ms, counts in ((KEPT_MS, (1, 1)), (KEPT_MS + HOUR_MS, (0, 0))):
        write_aside(connection, Observations(), NOW_MS + later_ms)
        assert connection.execute(COUNTS).fetchone() == counts
