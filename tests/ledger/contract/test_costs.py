"""Receipts, providers' bills and counts: what callers and operators are told of requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.base.ids import make_request_id
from gateway.base.money import Price, Tokens
from gateway.base.prices import AppliedPrice
from gateway.base.times import DAY_MS
from gateway.ledger.observation_records import (
    CallSums,
    Latency,
    LatencyCount,
    RefusedView,
    UpstreamFailure,
    UpstreamView,
    measure_latency,
)
from gateway.ledger.records import NotFound
from tests.ledger.contract.kit import (
    NOW_MS,
    Place,
    admission,
    find_key,
    key_id_of,
    read_receipt,
    settlement,
)

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


def make_failure(at_ms: int = NOW_MS, status: int | None = 401) -> UpstreamFailure:
    return UpstreamFailure(at_ms, f"req_{at_ms}", status, f"status {status}", "https://api/v1/chat")


def read_upstream(place: Place, now_ms: int = NOW_MS) -> list[UpstreamView]:
    with place.open_books(now_ms=now_ms) as books:
        return books.observations.read_upstream()


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
    monkeypatch.setattr("gateway.ledger.sql.observations.REFUSED_A_DAY", 4)
    monkeypatch.setattr("gateway.ledger.sql.observations.REFUSED_OF_ACCOUNT_A_DAY", 3)
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


async def test_rejections_are_no_failures_and_push_none_out(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A caller can have as many rejections as it likes."""
    monkeypatch.setattr("gateway.ledger.sql.observations.KEPT_FAILURES", 2)
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
        kept = [one.reason for one in books.receipts.read_detail("req_1").failures]
    assert kept == ["False 1", "False 2", "True 2", "True 3"]
    (view,) = read_upstream(place)
    assert (view.today, view.failure) == (CallSums(7, 3), replace(one, reason="False 2"))


@pytest.mark.parametrize(
    ("counts", "wanted"),
    [
        ((), Latency()),
        # All in one bucket: the second and the last of four in 10 to 14 ms.
        (((1, 4, 4),), Latency(4, 12, 14, 12, 14)),
        # The first bucket begins at 0, and 95 % are in the one from 640 to 905 ms.
        (((0, 90, 90), (13, 10, 10)), Latency(100, 6, 759, 6, 759)),
        # Beyond the last edge nobody knows how long.
        (((35, 1, 1),), Latency(1, *[1_310_720] * 4)),
        (((0, 2, 0), (2, 0, 2)), Latency(2, 3, 8, 16, 19)),
        # One reply took as long as half of them, and as 95 % of them.
        (((13, 1, 1),), Latency(1, *[773] * 4)),
    ],
)
def test_a_percentile_is_interpolated_within_its_bucket(
    counts: tuple[tuple[int, int, int], ...], wanted: Latency
) -> None:
    assert measure_latency(LatencyCount((), *count) for count in counts) == wanted
