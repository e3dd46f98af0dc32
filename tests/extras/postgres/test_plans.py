"""Pages read what they show from indexes, in their order, whatever else a ledger has."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.reports.filters import LATEST, Index, choose_index, make_parameters
from gateway.extras.reports.ranks import RANKS
from gateway.extras.reports.records import CallFilter
from gateway.extras.reports.sums import ONE, USAGE, write_sums
from gateway.ledger.sql.database import Values
from gateway.ledger.sql.entries import LATEST_ENTRIES
from tests.extras.postgres.cluster import Cluster
from tests.extras.postgres.million import FilledDatabase, PostgresHistory, fill, make_all_pages
from tests.long.million import ACCOUNT, KEY, MODEL

HISTORY = PostgresHistory(requests=30_000, days=70, accounts=50, events=100, failures=10)
CHOSEN = (
    CallFilter(),
    CallFilter(1),
    CallFilter(1, key_id=KEY),
    CallFilter(1, outcome="complete"),
    CallFilter(model=MODEL),
    CallFilter(provider="vendor"),
    CallFilter(outcome="failed"),
)


@pytest.fixture(scope="module")
def filled(postgres: Cluster) -> Iterator[FilledDatabase]:
    url = postgres.make_database()
    yield fill(url, HISTORY)
    postgres.drop_database(url)


@pytest.fixture
def books(filled: FilledDatabase) -> Iterator[PostgresBooks]:
    with filled.open_books() as books:
        yield books


def explain(books: PostgresBooks, sql: str, values: Values) -> str:
    with books.snapshot() as connection:
        return "\n".join(row[0] for row in connection.execute(f"EXPLAIN {sql}", values))


@pytest.mark.parametrize("chosen", CHOSEN)
def test_the_latest_calls_are_not_sorted(books: PostgresBooks, chosen: CallFilter) -> None:
    """A condition that is none must not look to the planner like one that few rows meet."""
    index: Index = choose_index(chosen)
    values = {**make_parameters(chosen), "low": "req_0", "high": "req_g", "limit": 51}
    plan = explain(books, LATEST[index], values)
    assert "Sort  (" not in plan, plan
    assert "coalesce" not in plan.lower(), plan


def test_the_latest_entries_are_not_sorted(books: PostgresBooks) -> None:
    plan = explain(books, LATEST_ENTRIES, (ACCOUNT, 20))
    assert "Sort  (" not in plan, plan


def test_the_sums_of_hours_come_in_the_order_of_their_key(
    books: PostgresBooks, filled: FilledDatabase
) -> None:
    values = {"account": 1, "key": None, "model": None}
    hours = {"first": (filled.today - 30) * 24, "end": filled.today * 24 + 24}
    sql = write_sums(USAGE, "hourly", ONE, "hour", "model")
    plan = explain(books, sql, {**values, **hours})
    assert "GroupAggregate" in plan, plan
    assert "Sort  (" not in plan, plan


def test_accounts_are_ranked_in_one_look_at_a_month(
    books: PostgresBooks, filled: FilledDatabase
) -> None:
    plan = explain(books, RANKS["spent_30d"], {"today": filled.today})
    assert "SubPlan" not in plan, plan
    assert "Nested Loop" not in plan, plan


def test_the_history_is_sound_and_every_page_can_be_read(
    books: PostgresBooks, filled: FilledDatabase
) -> None:
    assert books.audit().problems == ()
    for read in make_all_pages(books, filled).values():
        read()
