"""Calls and their sums: found however few they are, exact, and no table is read as a whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.extras.reports import calls, entries, filters, standings
from gateway.extras.reports.ranks import RANKS
from gateway.extras.reports.sums import CHARTS, ONE, USAGE, write_sums
from gateway.ledger.sqlite.schema import connect
from tests.ledger.kit import check_plan
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


def test_sums_of_charts_are_not_sorted_and_accounts_ranked_by_a_search(path: Path) -> None:
    for unit, chart in CHARTS.items():
        check_plan(path, write_sums(USAGE, chart[0], ONE, unit, "model"))
    for rank in RANKS.values():
        check_plan(path, rank, scans=("accounts",))
