"""Counts of a serving process beside the books: refusals, and calls to providers."""

from __future__ import annotations

from typing import Final

from gateway.ledger.alert_records import CallSums, RefusalView, UpstreamFailure, UpstreamView
from gateway.times import DAY_MS, HOUR_MS
from tests.ledger.contract.kit import NOW_MS, Place

MINUTE_MS: Final = 60_000
MONTH_MS: Final = 31 * DAY_MS


def make_failure(at_ms: int = NOW_MS, status: int | None = 401) -> UpstreamFailure:
    return UpstreamFailure(at_ms, f"req_{at_ms}", status, f"status {status}", "https://api/v1/chat")


def read_refusals(
    place: Place, account_id: int | None = None, *, since_ms: int = 0, now_ms: int = NOW_MS
) -> list[RefusalView]:
    with place.open_books(now_ms=now_ms) as books:
        return books.observations.read_refusals(account_id, since_ms)


def read_upstream(place: Place, now_ms: int = NOW_MS) -> list[UpstreamView]:
    with place.open_books(now_ms=now_ms) as books:
        return books.observations.read_upstream()


async def test_refusals_are_summed_by_account_code_and_model(place: Place) -> None:
    place.seed()
    with place.open_books() as books:
        ann = books.accounts.find_id("a")
    async with place.serve() as ledger:
        for number in range(3):
            ledger.note_refusal(ann, "rate_limit_exceeded", "", f"req_{number}")
        ledger.note_refusal(ann, "model_not_allowed", "m", "req_3")
        ledger.note_refusal(None, "invalid_api_key", "", "req_4")
    rates = RefusalView("a", "rate_limit_exceeded", "", 3, NOW_MS, "req_2")
    model = RefusalView("a", "model_not_allowed", "m", 1, NOW_MS, "req_3")
    nobody = RefusalView(None, "invalid_api_key", "", 1, NOW_MS, "req_4")
    assert sorted(read_refusals(place), key=lambda one: one.last_request_id) == [
        rates, model, nobody,
    ]  # fmt: skip
    mine = read_refusals(place, ann)
    assert sorted(mine, key=lambda one: one.last_request_id) == [rates, model]


async def test_sums_of_several_lives_add_up_and_the_last_request_is_known(place: Place) -> None:
    place.seed()
    for life in range(3):
        async with place.serve(now_ms=NOW_MS + life * HOUR_MS) as ledger:
            ledger.note_refusal(None, "invalid_api_key", "", f"req_{life}")
            ledger.note_refusal(None, "invalid_api_key", "", f"req_{life}b")
    now_ms = NOW_MS + 2 * HOUR_MS
    assert read_refusals(place) == [RefusalView(None, "invalid_api_key", "", 6, now_ms, "req_2b")]
    (late,) = read_refusals(place, since_ms=now_ms)
    assert late.count == 2


async def test_calls_are_summed_for_the_last_hour_and_the_day(place: Place) -> None:
    place.seed()
    noon = NOW_MS // DAY_MS * DAY_MS + 12 * HOUR_MS
    for ago_ms, failures in (
        (13 * HOUR_MS, 1),
        (2 * HOUR_MS, 1),
        (61 * MINUTE_MS, 1),
        (49 * MINUTE_MS, 0),
        (MINUTE_MS, 1),
    ):
        at_ms = noon - ago_ms
        async with place.serve(now_ms=at_ms) as ledger:
            ledger.note_upstream_call("p", "m", None)
            for _ in range(failures):
                ledger.note_upstream_call("p", "m", make_failure(at_ms))
    async with place.serve(now_ms=noon) as ledger:
        ledger.note_upstream_call("other", "m", None)
    other, mine = read_upstream(place, noon)
    assert other == UpstreamView("other", "m", CallSums(1, 0), CallSums(1, 0), CallSums(1, 0), None)
    assert mine == UpstreamView(
        "p", "m", CallSums(3, 1), CallSums(7, 3), CallSums(2, 1), make_failure(noon - MINUTE_MS)
    )


async def test_a_success_does_not_hide_the_last_failure(place: Place) -> None:
    place.seed()
    failure = make_failure(status=None)
    for now_ms, what in ((NOW_MS, failure), (NOW_MS, None), (NOW_MS + DAY_MS, None)):
        async with place.serve(now_ms=now_ms) as ledger:
            ledger.note_upstream_call("p", "m", what)
    (view,) = read_upstream(place, NOW_MS + DAY_MS)
    assert (view.failure, view.hour, view.latest) == (failure, CallSums(1), CallSums(1))


async def test_a_later_failure_replaces_an_earlier_one_whole(place: Place) -> None:
    place.seed()
    async with place.serve() as ledger:
        ledger.note_upstream_call("p", "m", make_failure(NOW_MS, 401))
    async with place.serve() as ledger:
        ledger.note_upstream_call("p", "m", make_failure(NOW_MS + 1, None))
    (view,) = read_upstream(place)
    assert view.failure == make_failure(NOW_MS + 1, None)


async def test_sums_are_forgotten_after_a_month(place: Place) -> None:
    place.seed()
    async with place.serve() as ledger:
        ledger.note_refusal(None, "invalid_api_key", "", "req_1")
        ledger.note_upstream_call("p", "m", make_failure())
    for later_ms, left in ((MONTH_MS - HOUR_MS, 2), (MONTH_MS + HOUR_MS, 1)):
        now_ms = NOW_MS + later_ms
        async with place.serve(now_ms=now_ms) as ledger:
            ledger.note_refusal(None, f"code_{later_ms}", "", "req_2")
            ledger.note_upstream_call(f"provider_{later_ms}", "m", None)
        codes = {one.code for one in read_refusals(place)}
        assert ("invalid_api_key" in codes) is (left == 2)
        providers = {one.provider for one in read_upstream(place, now_ms)}
        assert ("p" in providers) is (left == 2)
