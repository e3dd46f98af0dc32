"""Calls and their sums: found however few they are, exact, and no table is read as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.base.ids import find_first_id
from gateway.base.times import DAY_MS
from gateway.extras.reports import calls, entries, filters, standings
from gateway.extras.reports.ranks import RANKS
from gateway.extras.reports.records import CallFilter
from gateway.extras.reports.sums import CHARTS, ONE, USAGE, write_sums
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.schema import connect
from tests.ledger.kit import check_plan, explain
from tests.support.rows import each_row

STATEMENTS = {
    "one": filters.ONE,
    **{f"latest by {index}": sql for index, sql in filters.LATEST.items()},
    **{f"count by {index}": sql for index, sql in filters.COUNT_FEW.items()},
    "days": calls.DAYS,
    "hours": calls.HOURS,
    "sums": calls.COUNT,
    "entry count": entries.COUNT,
    **{f"run {kind}": sql for kind, sql in entries.RUNS.items()},
    "accounts": standings._STANDINGS,
}
INDEXES = {
    "id": "sqlite_autoindex_requests_1",
    "account": "SEARCH called USING PRIMARY KEY (account_id=? AND id>? AND id<?)",
    "model": "SEARCH called USING PRIMARY KEY (model=? AND id>? AND id<?)",
    "provider": "SEARCH called USING PRIMARY KEY (provider=? AND id>? AND id<?)",
    "failed": "requests_failed",
    "pending": "requests_pending",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.db"
    connect(path, create=True).close()
    return path


@each_row("name", STATEMENTS)
def test_no_statement_scans_or_sorts(path: Path, name: str) -> None:
    """Only pending requests are read as a whole and sorted: they are few."""
    is_pending = name.endswith("pending")
    check_plan(path, STATEMENTS[name], sorts=is_pending, scans=("requests",) if is_pending else ())


@each_row("index", INDEXES)
def test_each_index_is_used(path: Path, index: filters.Index) -> None:
    for statements in (filters.LATEST, filters.COUNT_FEW):
        steps = explain(path, statements[index])
        assert sum(INDEXES[index] in step for step in steps) == 1, steps


def test_a_time_is_a_range_of_ids(path: Path) -> None:
    chosen = CallFilter(since_ms=5, until_ms=DAY_MS)
    whole = (find_first_id(5), find_first_id(DAY_MS))
    below = find_first_id(9)
    with SqliteBooks(path) as books:
        assert list(calls.CallBook(books).find_ranges(chosen, None)) == [whole]
        assert list(calls.CallBook(books).find_ranges(chosen, below)) == [(whole[0], below)]


def test_sums_of_charts_are_not_sorted_and_accounts_ranked_by_a_search(path: Path) -> None:
    for unit, chart in CHARTS.items():
        check_plan(path, write_sums(USAGE, chart[0], ONE, unit, "model"))
    for rank in RANKS.values():
        check_plan(path, rank, scans=("accounts",))
