"""Receipts, providers' bills and counts: what callers and operators are told of requests."""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import Final, get_args

import pytest

from gateway.ids import make_request_id
from gateway.ledger.alert_records import (
    EDGES_MS,
    CallSums,
    Latency,
    LatencyCount,
    LatencyScope,
    RefusalView,
    RefusedView,
    UpstreamFailure,
    UpstreamView,
    measure_latency,
)
from gateway.ledger.call_records import Outcome, ProviderCosts, Spent, UsageGroup
from gateway.ledger.records import NotFound
from gateway.ledger.serving.ledger import ServingLedger
from gateway.money import Price, Tokens
from gateway.prices import AppliedPrice
from gateway.times import DAY_MS, HOUR_MS
from tests.ledger.contract.kit import (
    NOW_MS,
    Place,
    admission,
    find_key,
    key_id_of,
    read_receipt,
    settlement,
    void,
)

LATER_MS = NOW_MS + DAY_MS
ENDS = (
    ("small", 100, 60, None, NOW_MS),
    ("small", 100, 70, 75, NOW_MS),
    ("small", 50, 0, 0, LATER_MS),
    ("small", 9, None, None, NOW_MS),
    ("large", 30, 40, None, LATER_MS),
    ("routed", 20, None, 8, NOW_MS),
    ("plain", 5, None, None, NOW_MS),
)
"""Model, charge, computed and reported cost, and the end of requests."""
SMALL = ProviderCosts(3, 250, 130, 2, 75, 2, 5)
LARGE = ProviderCosts(1, 30, 40)
ROUTED = ProviderCosts(reported=1, reported_nano=8)


async def settle_all(place: Place) -> str:
    digest = place.seed()
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for model, cost_nano, provider_nano, reported_nano, ended_ms in ENDS:
            end = settlement(
                cost_nano,
                ended_ms=ended_ms,
                provider_cost_nano=provider_nano,
                reported_cost_nano=reported_nano,
            )
            await ledger.settle(ledger.hold(key, replace(admission(), model=model)), end)
    return key_id_of(digest)


def read(
    place: Place,
    by: UsageGroup = "model",
    account: str | None = None,
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> dict[str, ProviderCosts]:
    with place.open_books() as books:
        return books.usage.sum_costs(by, account=account, since_ms=since_ms, until_ms=until_ms)


async def test_costs_are_summed_by_model_day_and_key(place: Place) -> None:
    key_id = await settle_all(place)
    assert read(place) == {"small": SMALL, "large": LARGE, "routed": ROUTED}
    assert (SMALL.margin_nano, LARGE.margin_nano) == (120, -10)
    assert read(place, "key") == {key_id: ProviderCosts(4, 280, 170, 3, 83, 2, 5)}
    assert read(place, "day") == {
        "2023-11-14": ProviderCosts(2, 200, 130, 2, 83, 1, 5),
        "2023-11-15": ProviderCosts(2, 80, 40, 1, 0, 1, 0),
    }
    place.assert_sound()


async def test_costs_are_cut_by_account_and_time(place: Place) -> None:
    """Parts of days are summed as whole ones are."""
    await settle_all(place)
    place.add_account("b")
    everything = read(place)
    assert read(place, account="a") == everything
    assert read(place, account="b") == {}
    for cut in (0, 1):
        first_day = read(place, until_ms=LATER_MS // DAY_MS * DAY_MS + cut)
        assert first_day == {"small": ProviderCosts(2, 200, 130, 1, 75, 1, 5), "routed": ROUTED}
        rest = read(place, since_ms=LATER_MS // DAY_MS * DAY_MS + cut)
        assert rest == {"small": ProviderCosts(1, 50, 0, 1, 0, 1, 0), "large": LARGE}


async def test_what_is_not_charged_has_no_cost(place: Place) -> None:
    """A void is none of the margin, whatever its provider bills for it."""
    digest = place.seed()
    outcome: Outcome = "caller_left"
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        end = settlement(0, outcome=outcome, provider_cost_nano=3, reported_cost_nano=4)
        await ledger.settle(ledger.hold(key, admission()), end)
        settled = ledger.hold(key, admission())
        await ledger.wait_admitted(settled)
        await ledger.settle(settled, settlement(1, provider_cost_nano=3))
    assert read(place) == {"demo/echo": ProviderCosts(1, 1, 3)}
    place.assert_sound()


MOST = 2**63 - 1
ODD = AppliedPrice(
    Price(10**21, 2, 3, 4, 5, 6, 7, 8, None, 0, 10**21, 1_200_000, {"maps": 9, "x_search": 10**15}),
    "input_above 5, hours 01:00-04:00 \"'\\",
)
USED = Tokens(1, 2, 3, 4, 5, media={"audio_input": 1, "image_output": 4})
CALLS = {"web_search": 3, "maps": 10_000, "a": MOST}


@pytest.mark.parametrize("waits", [False, True], ids=["one commit", "two commits"])
async def test_a_receipt_has_media_tools_and_the_whole_price(place: Place, *, waits: bool) -> None:
    """Also once the process that charged it is gone."""
    digest = place.seed()
    end = replace(
        settlement(5, reported_cost_nano=4), tokens=USED, tool_calls=CALLS, price=ODD, cost_nano=5
    )
    async with place.serve() as ledger:
        for number in range(3):
            asked = replace(admission(stream=True, id_=f"req_{number}"), price=ODD)
            hold = ledger.hold(find_key(ledger, digest), asked)
            if waits:
                await ledger.wait_admitted(hold)
            pending = await read_receipt(ledger, f"req_{number}")
            assert (pending.state, pending.price) == ("pending", ODD)
            await ledger.settle(hold, end)
    async with place.serve() as ledger:
        for number in range(3):
            receipt = await read_receipt(ledger, f"req_{number}")
            assert (receipt.tokens, receipt.tool_calls) == (USED, CALLS)
            assert (receipt.price, receipt.price.text) == (ODD, ODD.text)
            assert (receipt.request_id, receipt.key_id) == (f"req_{number}", key_id_of(digest))
            assert (receipt.state, receipt.outcome, receipt.status) == ("posted", "complete", 200)
            assert (receipt.model, receipt.provider, receipt.stream) == ("demo/echo", "other", True)
            assert (receipt.hold_nano, receipt.cost_nano, receipt.attempts) == (1000, 5, 2)
            assert (receipt.started_ms, receipt.ended_ms) == (NOW_MS, NOW_MS + 1000)
            assert (receipt.first_byte_ms, receipt.estimated) == (12, False)
            assert receipt.corrections == ()


async def test_a_receipt_is_there_from_the_hold_on(place: Place) -> None:
    """Admitted, settled or voided a moment ago: it is never unknown."""
    digest = place.seed()
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        admitted = ledger.hold(key, admission(77, id_="admitted", stream=True))
        receipt = await read_receipt(ledger, "admitted")
        assert (receipt.state, receipt.outcome, receipt.hold_nano) == ("pending", "pending", 77)
        assert (receipt.stream, receipt.attempts, receipt.status) == (True, None, None)
        assert receipt.ended_ms is None
        _ = ledger.settle(admitted, settlement(5))
        receipt = await read_receipt(ledger, "admitted")
        assert (receipt.state, receipt.cost_nano) == ("posted", 5)
        _ = ledger.settle(ledger.hold(key, admission(id_="failed")), void())
        receipt = await read_receipt(ledger, "failed")
        assert (receipt.state, receipt.outcome) == ("voided", "upstream_error")
        assert await ledger.read_receipt("unknown") is None


async def test_spending_is_by_the_day_of_the_end(place: Place) -> None:
    """Today, 7 and 30 days, of this key alone, and of charges alone."""
    digest = place.seed()
    other = place.add_key()
    today = NOW_MS // DAY_MS
    async with place.serve() as ledger:
        key = find_key(ledger, digest)
        for days_ago, cost_nano in ((0, 1), (1, 10), (6, 100), (7, 1000), (29, 10**4), (30, 10**5)):
            ended_ms = (today - days_ago) * DAY_MS
            hold = ledger.hold(key, admission(started_ms=ended_ms - 5))
            await ledger.settle(hold, settlement(cost_nano, ended_ms=ended_ms))
        await ledger.settle(ledger.hold(key, admission()), void())
        await ledger.settle(ledger.hold(find_key(ledger, other), admission()), settlement(7))
        assert await ledger.read_spent(key, today) == Spent(1, 111, 11_111)


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


async def test_refusals_are_summed_over_lives_by_account_code_and_model(place: Place) -> None:
    place.seed()
    with place.open_books() as books:
        ann = books.accounts.find_id("a")
    for life in range(3):
        async with place.serve(now_ms=NOW_MS + life * HOUR_MS) as ledger:
            ledger.note_refusal(ann, "rate_limit_exceeded", "", f"req_{life}")
            ledger.note_refusal(None, "invalid_api_key", "", f"req_{life}")
            ledger.note_refusal(None, "invalid_api_key", "", f"req_{life}b")
            if life == 2:
                ledger.note_refusal(ann, "model_not_allowed", "m", "req_3")
    now_ms = NOW_MS + 2 * HOUR_MS
    rates = RefusalView("a", "rate_limit_exceeded", "", 3, now_ms, "req_2")
    nobody = RefusalView(None, "invalid_api_key", "", 6, now_ms, "req_2b")
    model = RefusalView("a", "model_not_allowed", "m", 1, now_ms, "req_3")
    by_request = attrgetter("last_request_id")
    assert sorted(read_refusals(place), key=by_request) == [rates, nobody, model]
    assert sorted(read_refusals(place, ann), key=by_request) == [rates, model]
    late = read_refusals(place, since_ms=now_ms)
    assert sorted(one.count for one in late) == [1, 1, 2]


async def test_a_refused_request_is_found_by_its_id_for_a_week(place: Place) -> None:
    """It is found by its account and by operators; none without a valid key is kept."""
    place.seed()
    other = place.add_account("b")
    with place.open_books() as books:
        ann = books.accounts.find_id("a")
    made = []
    for days in (0, 6, 8):
        now_ms = NOW_MS + days * DAY_MS
        made.append(make_request_id(now_ms))
        async with place.serve(now_ms=now_ms) as ledger:
            ledger.note_refusal(
                ann, "model_not_found", "", made[-1], named="no/such", key_id="key_1"
            )
            ledger.note_refusal(None, "invalid_api_key", "", make_request_id(now_ms))
    async with place.serve() as ledger:
        assert await ledger.read_refused(made[-1], "key_2") is None
        assert await ledger.read_refused(made[0], "key_1") is None
        asked = await ledger.read_refused(made[-1], "key_1")
    now_ms = NOW_MS + 8 * DAY_MS
    with place.open_books(now_ms=now_ms) as books:
        kept = books.observations.read_refused(ann, 0, 20)
        assert [one.request_id for one in kept] == made[:0:-1]
        assert books.observations.read_refused(None, 0, 20) == kept
        assert books.observations.read_refused(None, now_ms, 20) == kept[:1]
        assert books.observations.read_refused(other, 0, 20) == []
        assert books.observations.find_refused(made[-1]) == kept[0]
        found = books.observations.find_refused(made[-1], account_id=ann)
        assert found == asked == RefusedView(made[-1], "a", now_ms, "model_not_found", "no/such")
        for wanted, account_id in ((made[0], ann), (made[-1], other)):
            with pytest.raises(NotFound, match="no request that was refused"):
                books.observations.find_refused(wanted, account_id=account_id)


async def test_no_account_pushes_out_all_refused_requests_of_others(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The latest ones of each day are kept, and fewer of one account than of all."""
    monkeypatch.setattr("gateway.ledger.sql.alerts.REFUSED_A_DAY", 4)
    monkeypatch.setattr("gateway.ledger.sql.alerts.REFUSED_OF_ACCOUNT_A_DAY", 3)
    place.seed()
    with place.open_books() as books:
        ann = books.accounts.find_id("a")
    ben, cai = place.add_account("b"), place.add_account("c")
    kept: list[list[str]] = []
    for now_ms, accounts in (
        (NOW_MS, [ben, ann, ann, ann, ann, ann]),
        (NOW_MS + 10, [cai, cai]),
        (NOW_MS + DAY_MS, [ann, ann]),
    ):
        async with place.serve(now_ms=now_ms) as ledger:
            for number, account_id in enumerate(accounts):
                ledger.note_refusal(account_id, "c", "", make_request_id(now_ms + number))
        with place.open_books(now_ms=now_ms) as books:
            kept.append([one.account for one in books.observations.read_refused(None, 0, 20)])
    assert kept == [["a", "a", "a", "b"], ["c", "c", "a", "a"], ["a", "a", "c", "c", "a", "a"]]


async def test_the_last_failure_is_kept_whole_behind_successes(place: Place) -> None:
    place.seed()
    named = replace(make_failure(NOW_MS + 1, 529), type="overloaded_error", code="c", param="p")
    failures = [make_failure(NOW_MS, 401), named]
    later_ms = NOW_MS + DAY_MS
    for now_ms, what in ((NOW_MS, failures[0]), (NOW_MS, failures[1]), (later_ms, None)):
        async with place.serve(now_ms=now_ms) as ledger:
            ledger.note_upstream_call("p", "m", what)
    (view,) = read_upstream(place, later_ms)
    assert (view.failure, view.hour, view.latest) == (failures[1], CallSums(1), CallSums(1))


async def test_rejections_are_no_failures_and_push_none_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller can have as many rejections as it likes."""
    monkeypatch.setattr("gateway.ledger.sql.alerts.KEPT_FAILURES", 2)
    digest = place.seed()
    async with place.serve() as ledger:
        await ledger.settle(
            ledger.hold(find_key(ledger, digest), admission(id_="req_1")), settlement(7)
        )
    one = replace(make_failure(), request_id="req_1")
    for rejected, count in ((False, 3), (True, 4)):
        async with place.serve() as ledger:
            for number in range(count):
                failure = replace(one, reason=f"{rejected} {number}", rejected=rejected)
                ledger.note_upstream_call("p", "m", failure)
    with place.open_books() as books:
        kept = [one.reason for one in books.calls.read_detail("req_1").failures]
    assert kept == ["False 1", "False 2", "True 2", "True 3"]
    (view,) = read_upstream(place)
    assert (view.today, view.failure) == (CallSums(7, 3), replace(one, reason="False 2"))


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


async def test_sums_are_forgotten_after_a_month(place: Place) -> None:
    place.seed()
    async with place.serve() as ledger:
        ledger.note_refusal(None, "invalid_api_key", "", "req_1")
        ledger.note_upstream_call("p", "m", make_failure())
        note_latency(ledger, NOW_MS)
    for later_ms, left in ((MONTH_MS - HOUR_MS, 2), (MONTH_MS + HOUR_MS, 1)):
        now_ms = NOW_MS + later_ms
        async with place.serve(now_ms=now_ms) as ledger:
            ledger.note_refusal(None, f"code_{later_ms}", "", "req_2")
            ledger.note_upstream_call(f"provider_{later_ms}", "m", None)
            note_latency(ledger, now_ms)
        codes = {one.code for one in read_refusals(place)}
        assert ("invalid_api_key" in codes) is (left == 2)
        providers = {one.provider for one in read_upstream(place, now_ms)}
        assert ("p" in providers) is (left == 2)
        old = [count for scope in SCOPES for count in read_latencies(place, scope, MONTH_BEFORE)]
        assert len(old) == (4 if left == 2 else 0), "the day began before its hours"


SCOPES: Final = get_args(LatencyScope)
HOUR: Final = NOW_MS // HOUR_MS
MONTH_BEFORE: Final = (HOUR // 24 * 24, HOUR + 1)


def note_latency(
    ledger: ServingLedger, ended_ms: int, first_ms: int = 9, total_ms: int = 90, **names: str
) -> None:
    provider, model = names.get("provider", "p"), names.get("model", "m")
    ledger.note_latency(1, provider, model, ended_ms, first_byte_ms=first_ms, total_ms=total_ms)


def read_latencies(
    place: Place, scope: LatencyScope, hours: tuple[int, int], account_id: int | None = None
) -> list[LatencyCount]:
    with place.open_books() as books:
        return books.observations.read_latencies(scope, *hours, account_id)


async def test_latencies_are_counted_over_lives_by_route_account_and_day(place: Place) -> None:
    place.seed()
    place.add_account("b")
    for life in range(2):
        async with place.serve() as ledger:
            note_latency(ledger, NOW_MS, provider="q" if life else "p")
            note_latency(ledger, NOW_MS + HOUR_MS, model="n", total_ms=9)
    hours = (HOUR, HOUR + 1)
    bucket = 7  # 90 ms is above 80, and below the next edge
    assert EDGES_MS[bucket - 1] == 80
    assert sorted(read_latencies(place, "route", hours), key=str) == [
        LatencyCount((provider, "m"), *counts)
        for provider in "pq"
        for counts in ((0, 1, 0), (bucket, 0, 1))
    ]
    both = [LatencyCount(("a",), 0, 2, 0), LatencyCount(("a",), bucket, 0, 2)]
    assert sorted(read_latencies(place, "account", hours, 1), key=str) == both
    assert read_latencies(place, "account", hours, 2) == []
    day = (HOUR // 24 * 24, HOUR // 24 * 24 + 24)
    assert measure_latency(read_latencies(place, "day", day)).calls == 4
    assert read_latencies(place, "day", (day[1], day[1] + 24)) == []


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ((), Latency()),
        # All in one bucket: half of it, and 95 % of it.
        (((1, 4, 4),), Latency(4, 12, 14, 12, 14)),
        # The first bucket begins at 0, and 95 % are in the one from 640 to 905 ms.
        (((0, 90, 90), (13, 10, 10)), Latency(100, 6, 773, 6, 773)),
        # Beyond the last edge nobody knows how long.
        (((35, 1, 1),), Latency(1, *[1_310_720] * 4)),
        (((0, 2, 0), (2, 0, 2)), Latency(2, 5, 10, 17, 20)),
    ],
)
def test_a_percentile_is_interpolated_within_its_bucket(
    counts: tuple[tuple[int, int, int], ...], wanted: Latency
) -> None:
    assert measure_latency(LatencyCount((), *count) for count in counts) == wanted
