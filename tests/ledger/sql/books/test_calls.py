"""Calls and their sums: found however few they are, exact, and no table is read as a whole."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gateway.ids import find_first_id
from gateway.ledger.call_records import CallFilter, Usage, UsageFilter, UsageGroup, sum_usage
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import NotFound
from gateway.ledger.sql import calls
from gateway.ledger.sql.accounts import RANKS
from gateway.ledger.sql.usage import CHARTS, ONE, USAGE, write_sums
from gateway.ledger.sqlite.schema import connect
from gateway.times import DAY_MS, HOUR_MS
from tests.console.calls import check_plan, explain
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of, settlement, void
from tests.ledger.sql.books.places import AnyBooks
from tests.ledger.sql.requests import add_requests, make_item
from tests.support.rows import each_row

DAY = 19_700
CALLS = (
    # key, model, begun, ended
    (0, "m", 0, 5),
    (1, "m", HOUR_MS - 1, HOUR_MS + 1),  # over the hour
    (0, "n", DAY_MS - 1, DAY_MS + 1),  # over midnight
    (1, "n", DAY_MS + HOUR_MS, None),  # pending
)


@pytest.fixture
def ids(books: AnyBooks) -> list[str]:
    """Store `CALLS` and return their ids."""
    keys, items = [key_id_of(create_key(books, "a")) for _ in range(2)], []
    for key, model, begun_ms, ended_ms in CALLS:
        end = None if ended_ms is None else settlement(1, ended_ms=DAY * DAY_MS + ended_ms)
        item = make_item(1, keys[key], DAY * DAY_MS + begun_ms, end)
        item.hold.admission = replace(item.hold.admission, model=model)
        items.append(item)
    add_requests(books.connection, items, 1)
    return [item.hold.admission.request_id for item in items]


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (CallFilter(1), [3, 2, 1, 0]),
        (CallFilter(1, model="m"), [1, 0]),
        (CallFilter(1, model="n"), [3, 2]),
        (CallFilter(1, since_ms=DAY * DAY_MS, until_ms=(DAY + 1) * DAY_MS), [2, 1, 0]),
        (CallFilter(1, since_ms=(DAY + 1) * DAY_MS, model="n"), [3]),
        (CallFilter(1, until_ms=(DAY + 1) * DAY_MS, model="n"), [2]),
        (CallFilter(1, until_ms=DAY * DAY_MS), []),
        (CallFilter(2), []),
    ],
)
def test_calls_are_chosen_by_when_they_began(
    books: AnyBooks, ids: list[str], chosen: CallFilter, expected: list[int]
) -> None:
    found = books.calls.read_page(chosen, None, 10)
    assert [ids.index(call.request_id) for call in found] == expected
    assert books.calls.count(chosen) == len(expected)


def test_calls_of_one_key_are_found_page_by_page(books: AnyBooks, ids: list[str]) -> None:
    keys = [books.calls.read_page(CallFilter(1, id_), None, 1)[0].key_id for id_ in ids]
    for key_id in keys[:2]:
        chosen, seen, below = CallFilter(1, key_id=key_id), [], None
        while page := books.calls.read_page(chosen, below, 1):
            (call,) = page
            below = call.request_id
            seen.append(call.request_id)
        assert seen == [id_ for id_, key in zip(ids, keys, strict=True) if key == key_id][::-1]
        assert books.calls.count(chosen) == len(seen) == 2


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        (CallFilter(), [0, 2, 1]),
        (CallFilter(1, until_ms=DAY * DAY_MS + HOUR_MS), [0, 1]),
        (CallFilter(1, model="n"), [2]),
        (CallFilter(model="m"), [0, 1]),
        (CallFilter(provider="other"), [0, 2, 1]),
        (CallFilter(slower_than_ms=2), [0]),
        (CallFilter(outcome="failed"), []),
        (CallFilter(outcome="pending"), []),
    ],
)
def test_the_slowest_calls_come_first_and_have_ended(
    books: AnyBooks, ids: list[str], chosen: CallFilter, expected: list[int]
) -> None:
    """By each index; the later one of two that took as long comes first."""
    found = books.calls.read_slowest(chosen, None, 10)
    assert [ids.index(call.request_id) for call in found] == expected
    assert books.calls.read_slowest(chosen, None, 1) == found[:1]


def test_one_call_is_found_by_its_id_within_the_filter(books: AnyBooks, ids: list[str]) -> None:
    for wanted, count in (
        (CallFilter(1, ids[0]), 1),
        (CallFilter(2, ids[0]), 0),
        (CallFilter(1, ids[0], model="n"), 0),
        (CallFilter(1, "unknown"), 0),
    ):
        assert len(books.calls.read_page(wanted, None, 10)) == books.calls.count(wanted) == count
    assert books.calls.read_page(CallFilter(1, ids[0]), ids[0], 10) == [], "it is not below itself"


def test_pending_calls_are_measured_by_their_holds(books: AnyBooks, ids: list[str]) -> None:
    assert len(ids) == len(CALLS)
    assert books.calls.measure_pending() == (1, 1000)
    assert books.accounts.read("a").held_nano == 1000


STATEMENTS = {
    "one": calls.ONE,
    **{f"latest by {index}": sql for index, sql in calls.LATEST.items()},
    **{f"count by {index}": sql for index, sql in calls.COUNT_FEW.items()},
    "days": calls.DAYS,
    "hours": calls.HOURS,
    "sums": calls.COUNT,
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


@pytest.mark.parametrize("name", STATEMENTS)
def test_no_statement_scans_or_sorts(path: Path, name: str) -> None:
    """Only pending requests are read as a whole and sorted: they are few."""
    is_pending = name.endswith("pending")
    check_plan(path, STATEMENTS[name], sorts=is_pending, scans=("requests",) if is_pending else ())


@pytest.mark.parametrize("index", INDEXES)
def test_each_index_is_used(path: Path, index: calls.Index) -> None:
    for statements in (calls.LATEST, calls.COUNT_FEW):
        steps = explain(path, statements[index])
        assert sum(INDEXES[index] in step for step in steps) == 1, steps


@each_row(
    ("chosen", "index"),
    [
        (CallFilter(), "id"),
        (CallFilter(1), "account"),
        (CallFilter(1, key_id="k", outcome="complete", status=200), "account"),
        (CallFilter(model="m"), "model"),
        (CallFilter(model="m", provider="p", status=200), "model"),
        (CallFilter(1, model="m"), "account"),
        (CallFilter(1, provider="p"), "provider"),
        (CallFilter(1, provider="p", model="m"), "account"),
        (CallFilter(provider="p", outcome="failed"), "failed"),
        (CallFilter(outcome="caller_left"), "failed"),
        (CallFilter(1, status=502), "failed"),
        (CallFilter(1, outcome="pending", provider="p"), "pending"),
    ],
)
def test_what_is_chosen_decides_the_index(chosen: CallFilter, index: str) -> None:
    assert calls.choose_index(chosen) == index


def test_a_time_is_a_range_of_ids(path: Path) -> None:
    connection = connect(path)
    chosen = CallFilter(since_ms=5, until_ms=DAY_MS)
    whole = (find_first_id(5), find_first_id(DAY_MS))
    assert list(calls.find_ranges(connection, chosen, None)) == [whole]
    below = find_first_id(9)
    assert list(calls.find_ranges(connection, chosen, below)) == [(whole[0], below)]
    connection.close()


TODAY = NOW_MS // DAY_MS


@pytest.fixture
def keys(books: AnyBooks) -> list[str]:
    """Charge 1 and 10 to one key and 100 to another on two days, and void one; return the keys."""
    ids = [key_id_of(create_key(books, "a")) for _ in range(2)]
    ends = [
        (0, settlement(1, ended_ms=TODAY * DAY_MS)),
        (0, settlement(10, ended_ms=TODAY * DAY_MS - 1)),
        (1, settlement(100, ended_ms=TODAY * DAY_MS + HOUR_MS)),
        (1, void()),
    ]
    items = [make_item(1, ids[key], NOW_MS - DAY_MS, end) for key, end in ends]
    add_requests(books.connection, items, NOW_MS)
    return ids


@pytest.mark.parametrize("by", ["day", "model", "key", "provider"])
def test_parts_of_days_are_summed_as_whole_days_are(
    books: AnyBooks, keys: list[str], by: UsageGroup
) -> None:
    """Whole days come from their sums, parts of days from the requests."""
    whole = books.usage.sum_by(by, account="a", since_ms=None, until_ms=None)
    until_ms = (TODAY + 1) * DAY_MS
    assert books.usage.sum_by(by, account=None, since_ms=0, until_ms=until_ms - 1) == whole
    total = sum_usage(usage for _, usage in whole)
    assert (total.requests, total.cost_nano) == (3, 111)
    today = books.usage.sum_by("key", account="a", since_ms=TODAY * DAY_MS, until_ms=None)
    assert {key: usage.cost_nano for key, usage in today} == dict(zip(keys, (1, 100), strict=True))


def test_a_report_has_points_keys_and_models_of_the_chosen_days(
    books: AnyBooks, keys: list[str]
) -> None:
    report = books.usage.report(UsageFilter(1, TODAY, TODAY), "hour", by_key=True)
    assert [(point.at - 24 * TODAY, point.usage.cost_nano) for point in report.points] == [
        (0, 1),
        (1, 100),
    ]
    assert [label.id for label, _ in report.keys] == keys[::-1], "the most expensive first"
    assert report.models == ("demo/echo",)
    other = books.usage.report(UsageFilter(1, TODAY, TODAY, model="other"), "day")
    assert (other.points, other.keys, other.models) == ((), (), ("demo/echo",))
    assert books.usage.sum_by_key(1, TODAY - 1, TODAY) == dict(zip(keys, (11, 100), strict=True))


def test_an_overview_names_the_keys_that_expire_soon(books: AnyBooks, keys: list[str]) -> None:
    """Those that work and were not replaced, the earliest first."""
    soon = [
        key_id_of(create_key(books, "a", KeyTerms(expires_ms=NOW_MS + ms))) for ms in (9, 5, 11, 0)
    ]
    overview = books.usage.read_overview(1, first_day=TODAY, soon_ms=10)
    assert [(label.id, ms) for label, ms in overview.expiring] == [
        (soon[1], NOW_MS + 5),
        (soon[0], NOW_MS + 9),
    ]
    assert {day: usage.cost_nano for day, usage in overview.days.items()} == {TODAY: 101}
    assert (overview.active_keys, overview.has_key, overview.has_call) == (5, True, True)
    assert len(keys) == 2


def test_nothing_was_used_where_nothing_is(books: AnyBooks) -> None:
    overview = books.usage.read_overview(1, first_day=0, soon_ms=10)
    assert (overview.days, overview.has_key, overview.has_call) == ({}, False, False)
    assert sum_usage([]) == Usage()
    with pytest.raises(NotFound):
        books.usage.sum_by("day", account="nobody", since_ms=None, until_ms=None)


def test_sums_of_charts_are_not_sorted_and_accounts_ranked_by_a_search(path: Path) -> None:
    for unit, chart in CHARTS.items():
        check_plan(path, write_sums(USAGE, chart[0], ONE, unit, "model"))
    for rank in RANKS.values():
        check_plan(path, rank, scans=("accounts",))
