"""The audit proves the sums of costs; a gateway without costs writes none."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from gateway.admin import accounts
from gateway.ledger.call_records import ProviderCosts
from gateway.ledger.sqlite.serving.ledger import SqliteLedger
from gateway.ledger.sqlite.totals import count_costs
from tests.ledger.kit import Place, admission, charge, find_key, make_place, query, settlement
from tests.support.rows import each_row


async def make_costs(folder: Path) -> Place:
    place = make_place(folder)
    async with SqliteLedger.open(place.path) as ledger:
        key = find_key(ledger, place)
        await charge(ledger, key, 70)
        for end in (
            settlement(100, provider_cost_nano=60, reported_cost_nano=61),
            settlement(100, provider_cost_nano=60),
        ):
            await ledger.settle(ledger.hold(key, admission()), end)
    return place


@each_row(
    "sql",
    [
        "UPDATE daily_costs SET cost_nano = cost_nano + 1",
        "UPDATE daily_costs SET difference_nano = 0",
        "UPDATE daily_costs SET known = known - 1",
        "DELETE FROM daily_costs",
        "INSERT INTO daily_costs SELECT account_id, day + 1, model, key_id, 1, 1, 1, 0, 0, 0, 0 FROM daily_costs",
        "DROP TRIGGER requests_settle_once; UPDATE requests SET provider_cost_nano = 1",
        "DROP TRIGGER requests_settle_once; UPDATE requests SET reported_cost_nano = NULL",
    ],
)
async def test_the_audit_finds_sums_that_are_not_those_of_the_requests(
    tmp_path: Path, sql: str
) -> None:
    place = await make_costs(tmp_path)
    with accounts.open_books(place.path) as books:
        assert books.audit().ok
    with closing(sqlite3.connect(place.path)) as connection:
        connection.executescript(sql)
    with accounts.open_books(place.path) as books:
        (problem, *_) = books.audit().problems
    day = "2023-11-15" if "day + 1" in sql else "2023-11-14"
    where = f"account a, day {day}, model demo/echo, key {place.key_id}"
    assert problem == f"{where}: the day's costs are not those of its requests"


async def test_without_costs_nothing_is_written(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    async with SqliteLedger.open(place.path) as ledger:
        await charge(ledger, find_key(ledger, place), 70)
    assert query(place.path, "SELECT * FROM daily_costs") == []
    columns = "SELECT provider_cost_nano, reported_cost_nano FROM requests"
    assert query(place.path, columns) == [(None, None)]


def test_only_a_charge_can_have_a_cost(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    with closing(sqlite3.connect(place.path)) as connection:
        (sql,) = connection.execute(
            "SELECT sql FROM sqlite_schema WHERE name = 'requests'"
        ).fetchone()
    assert sql.count("state = 'posted'))") == 2


def test_the_excess_is_of_requests_with_both_costs() -> None:
    both = settlement(9, provider_cost_nano=5, reported_cost_nano=3)
    assert count_costs(both) == ProviderCosts(1, 9, 5, 1, 3, 1, -2)
    assert count_costs(settlement(9, reported_cost_nano=3)) == ProviderCosts(0, 0, 0, 1, 3, 0, 0)
