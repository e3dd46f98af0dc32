"""Receipts: what callers are told of the cost of requests."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.base.money import Price, Tokens
from gateway.base.prices import AppliedPrice
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
