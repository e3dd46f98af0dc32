"""Refusals and calls to providers are written with the latest failures, and nothing old is kept."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from gateway.ledger.alert_records import KEPT_FAILURES, KEPT_MS, SLOT_MS
from gateway.ledger.serving.sums import CallSum, Observations, RefusalSum
from gateway.ledger.sql.books.observations import Insert, Row, write_observations
from gateway.ledger.sql.connection import Connection
from gateway.times import HOUR_MS
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.contract.test_observations import make_failure

COUNTS = "SELECT (SELECT count(*) FROM refusals), (SELECT count(*) FROM upstream_calls)"


def insert_rows(connection: Connection, insert: Insert, rows: Sequence[Row]) -> None:
    """Insert them one by one, as no database does it."""
    for row in rows:
        marks = ", ".join("?" * len(row))
        connection.execute(f"{insert.into} VALUES ({marks}) {insert.then}", row)


def test_the_latest_failures_are_kept(connection: sqlite3.Connection) -> None:
    for start in range(0, KEPT_FAILURES + 1000, 1000):
        failures = [make_failure(start + n) for n in range(1000)]
        write_observations(connection, Observations(failures=failures), NOW_MS, insert_rows)
    figures = connection.execute(
        "SELECT count(*), min(failed_ms), max(failed_ms) FROM upstream_failures"
    )
    assert figures.fetchone() == (KEPT_FAILURES, 1000, KEPT_FAILURES + 999)


def test_a_sum_keeps_its_last_failure_whole(connection: sqlite3.Connection) -> None:
    """A later one without a status leaves none of an earlier one; calls that work leave it alone."""
    slot = (NOW_MS // SLOT_MS, "p", "m")
    first, last = make_failure(NOW_MS, 500), make_failure(NOW_MS + 1, None)
    for sums in (CallSum(2, 1, first), CallSum(3, 2, last), CallSum(4)):
        write_observations(connection, Observations(calls={slot: sums}), NOW_MS, insert_rows)
    stored = connection.execute(
        "SELECT calls, failures, failed_ms, failed_request_id, failed_status, reason, url"
        " FROM upstream_calls"
    ).fetchall()
    told = (last.at_ms, last.request_id, None, last.reason, last.url)
    assert stored == [(9, 3, *told)]


def test_what_is_old_is_forgotten_with_the_next_write(connection: sqlite3.Connection) -> None:
    sums = Observations(calls={(NOW_MS // SLOT_MS, "p", "m"): CallSum(1)})
    sums.refusals[NOW_MS // HOUR_MS, 1, "c", "m"] = RefusalSum(1, NOW_MS, "req_1")
    write_observations(connection, sums, NOW_MS, insert_rows)
    for later_ms, counts in ((KEPT_MS, (1, 1)), (KEPT_MS + HOUR_MS, (0, 0))):
        write_observations(connection, Observations(), NOW_MS + later_ms, insert_rows)
        assert connection.execute(COUNTS).fetchone() == counts
