"""Writes beside the books of a file, in transactions of their own."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gateway.extras.observations.book import KEPT_FAILURES
from gateway.extras.observations.observer import CallSum, Observations, RefusalSum
from gateway.ledger.sqlite.batch import write_aside
from gateway.ledger.sqlite.schema import connect
from gateway.ledger.sqlite.statements import ROWS_AT_ONCE
from tests.extras.observations.kit import make_failure, writing
from tests.ledger.contract.kit import NOW_MS

FULL = 2
"""The value of `PRAGMA synchronous` that makes commits wait for the disk."""


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[sqlite3.Connection]:
    with closing(connect(tmp_path / "gateway.db", create=True)) as connection:
        yield connection


def make_refusals(count: int) -> Observations:
    return Observations(
        {(10**6, None, "c", str(one)): RefusalSum(1, NOW_MS, "req_1") for one in range(count)}
    )


def count_rows(connection: sqlite3.Connection) -> int:
    (count,) = connection.execute("SELECT count(*) FROM refusals").fetchone()
    return int(count)


def test_more_rows_than_fit_into_a_statement_are_written(connection: sqlite3.Connection) -> None:
    write_aside(connection, writing(make_refusals(ROWS_AT_ONCE + 1)))
    assert count_rows(connection) == ROWS_AT_ONCE + 1


def test_a_bad_row_leaves_nothing_behind_and_commits_wait_for_the_disk_again(
    connection: sqlite3.Connection,
) -> None:
    bad = make_refusals(1)
    bad.calls[10**6, "p", "m"] = CallSum(calls=1, failures=2)
    with pytest.raises(sqlite3.IntegrityError):
        write_aside(connection, writing(bad))
    assert (count_rows(connection), connection.in_transaction) == (0, False)
    assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)


def test_only_observations_do_without_the_disk(connection: sqlite3.Connection) -> None:
    seen: list[str] = []
    connection.set_trace_callback(seen.append)
    write_aside(connection, writing(make_refusals(1)))
    assert seen[0] == "PRAGMA synchronous = NORMAL"
    assert seen[-2:] == ["COMMIT", "PRAGMA synchronous = FULL"]
    assert connection.execute("PRAGMA synchronous").fetchone() == (FULL,)


def test_the_latest_failures_are_kept(connection: sqlite3.Connection) -> None:
    for start in range(0, KEPT_FAILURES + 1000, 1000):
        failures = [make_failure(start + n) for n in range(1000)]
        write_aside(connection, writing(Observations(failures=failures)))
    figures = connection.execute(
        "SELECT count(*), min(failed_ms), max(failed_ms) FROM upstream_failures"
    )
    assert figures.fetchone() == (KEPT_FAILURES, 1000, KEPT_FAILURES + 999)
