"""Usage: sums of days and of parts of days agree, and an overview names what expires."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.ledger.base import Account, Hold, Key, Line
from gateway.ledger.call_records import ChartUnit, Usage, UsageFilter, UsageGroup, sum_usage
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import NotFound
from gateway.ledger.serving.store import Item
from gateway.ledger.sql.books.usage import POINTS
from gateway.ledger.sqlite.schema import connect
from gateway.times import DAY_MS, HOUR_MS
from tests.console.calls import check_plan
from tests.ledger.contract.kit import NOW_MS, admission, create_key, key_id_of, settlement, void
from tests.ledger.sql.books.places import AnyBooks
from tests.ledger.sql.requests import add_requests
from tests.support.rows import each_row

DAY = NOW_MS // DAY_MS


@pytest.fixture
def keys(books: AnyBooks) -> list[str]:
    """Charge 1 and 10 to one key and 100 to another on two days, and void one; return the keys."""
    ids = [key_id_of(create_key(books, "a")) for _ in range(2)]
    account = Account(1, "a", suspended=False, balance_nano=1000)
    ends = [
        (0, settlement(1, ended_ms=DAY * DAY_MS)),
        (0, settlement(10, ended_ms=DAY * DAY_MS - 1)),
        (1, settlement(100, ended_ms=DAY * DAY_MS + HOUR_MS)),
        (1, void()),
    ]
    items = [
        Item(
            Hold(
                admission(started_ms=NOW_MS - DAY_MS),
                account,
                Key(ids[n], account, KeyTerms(), Line(ids[n])),
                9,
            ),
            True,
            end,
        )
        for n, end in ends
    ]
    add_requests(books.connection, items, NOW_MS)
    return ids


@pytest.mark.parametrize("by", ["day", "model", "key"])
def test_parts_of_days_are_summed_as_whole_days_are(
    books: AnyBooks, keys: list[str], by: UsageGroup
) -> None:
    """Whole days come from their sums, parts of days from the requests."""
    whole = books.usage.sum_by(by, account="a", since_ms=None, until_ms=None)
    until_ms = (DAY + 1) * DAY_MS
    assert books.usage.sum_by(by, account=None, since_ms=0, until_ms=until_ms - 1) == whole
    total = sum_usage(usage for _, usage in whole)
    assert (total.requests, total.cost_nano) == (3, 111)
    today = books.usage.sum_by("key", account="a", since_ms=DAY * DAY_MS, until_ms=None)
    assert {key: usage.cost_nano for key, usage in today} == dict(zip(keys, (1, 100), strict=True))


def test_a_report_has_points_keys_and_models_of_the_chosen_days(
    books: AnyBooks, keys: list[str]
) -> None:
    report = books.usage.report(UsageFilter(1, DAY, DAY), "hour", by_key=True)
    assert [(point.at - 24 * DAY, point.usage.cost_nano) for point in report.points] == [
        (0, 1),
        (1, 100),
    ]
    assert [label.id for label, _ in report.keys] == keys[::-1], "the most expensive first"
    assert report.models == ("demo/echo",)
    other = books.usage.report(UsageFilter(1, DAY, DAY, model="other"), "day")
    assert (other.points, other.keys, other.models) == ((), (), ("demo/echo",))
    assert books.usage.sum_by_key(1, DAY - 1, DAY) == dict(zip(keys, (11, 100), strict=True))


def test_an_overview_names_the_keys_that_expire_soon(books: AnyBooks, keys: list[str]) -> None:
    """Those that work and were not replaced, the earliest first."""
    soon = [
        key_id_of(create_key(books, "a", KeyTerms(expires_ms=NOW_MS + ms))) for ms in (9, 5, 11, 0)
    ]
    overview = books.usage.read_overview(1, first_day=DAY, soon_ms=10)
    assert [(label.id, ms) for label, ms in overview.expiring] == [
        (soon[1], NOW_MS + 5),
        (soon[0], NOW_MS + 9),
    ]
    assert {day: usage.cost_nano for day, usage in overview.days.items()} == {DAY: 101}
    assert (overview.active_keys, overview.has_key, overview.has_call) == (5, True, True)
    assert len(keys) == 2


def test_nothing_was_used_where_nothing_is(books: AnyBooks) -> None:
    overview = books.usage.read_overview(1, first_day=0, soon_ms=10)
    assert (overview.days, overview.has_key, overview.has_call) == ({}, False, False)
    assert sum_usage([]) == Usage()
    with pytest.raises(NotFound):
        books.usage.sum_by("day", account="nobody", since_ms=None, until_ms=None)


@each_row("unit", POINTS)
def test_the_sums_of_a_chart_are_not_sorted(tmp_path: Path, unit: ChartUnit) -> None:
    path = tmp_path / "gateway.db"
    connect(path, create=True).close()
    check_plan(path, POINTS[unit])
