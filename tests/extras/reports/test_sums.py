"""Large sums are exact, in each implementation of the ledger, and the last failure of a call is known."""

from __future__ import annotations

from typing import Final

from gateway.base.times import DAY_MS
from gateway.extras.observations.serving import observe
from gateway.extras.reports.calls import CallBook
from gateway.extras.reports.ranks import RankBook
from gateway.extras.reports.records import CallFilter, UsageFilter
from gateway.extras.reports.usage import UsageBook
from tests.extras.observations.test_book import FAILURES
from tests.ledger.contract import conftest
from tests.ledger.contract.kit import NOW_MS, Place, admission, settlement
from tests.ledger.contract.test_audit import KEYS, SUM_NANO, TODAY, spend

place: Final = conftest.place
pytest_generate_tests: Final = conftest.pytest_generate_tests


async def test_every_sum_of_the_books_is_exact(place: Place) -> None:
    await spend(place)
    with place.open_books() as books:
        sums, account_id = UsageBook(books), books.accounts.find_id("a")
        everything = UsageFilter(account_id, TODAY - 30, TODAY)
        for by in ("day", "model", "account"):
            ((_, usage),) = sums.sum_by(by, account=None, since_ms=None, until_ms=None)
            assert usage.cost_nano == SUM_NANO
        by_key = sums.sum_by("key", account="a", since_ms=0, until_ms=NOW_MS + DAY_MS + 1)
        assert [usage.cost_nano for _, usage in by_key] == [SUM_NANO // KEYS] * KEYS
        for unit in ("day", "hour"):
            (point,) = sums.report(everything, unit, by_key=True).points
            assert point.usage.cost_nano == SUM_NANO
        (costs,) = sums.sum_costs("model", account=None, since_ms=None, until_ms=None).values()
        assert (costs.provider_cost_nano, costs.reported_nano) == (SUM_NANO, SUM_NANO)
        assert (costs.margin_nano, costs.difference_nano) == (0, 0)
        overview = sums.read_overview(account_id, first_day=TODAY - 30, soon_ms=0)
        assert overview.days[TODAY].cost_nano == SUM_NANO
        ranks = RankBook(books).rank("spent_7d", today=TODAY)
        assert ranks == {account_id: SUM_NANO}


async def test_a_call_is_found_with_its_last_failure(place: Place) -> None:
    async with place.serve_key() as (ledger, key):
        await ledger.settle(ledger.hold(key, admission(id_="req_1")), settlement(77))
        observer = observe(ledger)
        for failure in FAILURES:
            observer.note_upstream_call("p", "m", failure)
    with place.open_books() as books:
        calls = CallBook(books)
        (call,) = calls.read_page(CallFilter(), None, 5)
        assert calls.read_last_failures([call]) == {"req_1": FAILURES[-1]}
        assert calls.read_last_failures([]) == {}
        assert (call.account, call.request_id) == ("a", "req_1")
        for slower_than_ms, count in ((-1, 1), (call.total_ms, 0)):
            chosen = CallFilter(slower_than_ms=slower_than_ms)
            assert calls.count(chosen) == count
            assert len(calls.read_page(chosen, None, 5)) == count
            assert calls.read_slowest(chosen, None, 5) == [call][:count]
        assert calls.read_slowest(CallFilter(), None, 5) == [call]
        for account_id in (None, books.accounts.find_id("a")):
            chosen = CallFilter(account_id)
            starts = [calls.find_start_ms(chosen, None, count) for count in (1, 2)]
            assert starts == [call.started_ms, None]
            assert calls.find_start_ms(chosen, call.request_id, 1) is None
