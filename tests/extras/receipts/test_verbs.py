"""Receipts on the command line."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

from gateway.base.money import PRICES, Price, Tokens
from gateway.base.prices import AppliedPrice
from gateway.extras.observations.records import KeyLabel, UpstreamFailure
from gateway.extras.receipts.book import CallDetail
from gateway.extras.receipts.verbs import page_receipt
from gateway.ledger.call_records import Outcome, Receipt
from tests.support.rows import each_row

NOW_MS = 1_700_000_000_000
RECEIPT = Receipt(
    request_id="req_1",
    key_id="key_1",
    state="posted",
    outcome="upstream_error",
    model="m",
    provider="vendor",
    stream=True,
    price=AppliedPrice(Price(150, 600, 0, 0, web_search=10**10), "input_above 200000"),
    hold_nano=10**9,
    started_ms=NOW_MS,
    attempts=2,
    status=502,
    tokens=Tokens(98, 20, 5, 50),
    tool_calls={"web_search": 3},
    cost_nano=77,
    estimated=True,
    first_byte_ms=12,
    ended_ms=NOW_MS + 1000,
)
FAILURES = (
    UpstreamFailure(NOW_MS, "req_1", 401, "status 401", ""),
    UpstreamFailure(NOW_MS, "req_1", 400, "status 400", "", rejected=True),
)
DETAIL = CallDetail("alice", KeyLabel("key_1", "laptop", "sk-ru-…a1b2"), RECEIPT, FAILURES)
ENDED = "upstream_error, status 502; ended by: upstream"
TOLD = "input 0.00000015 per million, output 0.0000006 per million, web_search 10.00 per thousand"


def test_the_page_of_a_receipt_has_everything() -> None:
    page = page_receipt(DETAIL, "EUR")
    assert page.splitlines() == [
        "request     req_1",
        "account     alice",
        "key         laptop sk-ru-…a1b2 key_1",
        "model       m",
        "provider    vendor",
        "attempts    2",
        f"ended       The provider failed, refused the call or broke off. ({ENDED})",
        "failure     status 401",
        "rejected    status 400",
        "started     2023-11-14 22:13 UTC",
        "took        1000 ms; to the first byte: 12 ms",
        "tokens      input 123, of these cached 20, written to the cache 5; output 50",
        "web search  3 calls",
        f"prices      {TOLD} (EUR)",
        "price rule  input_above 200000",
        "hold        1.00 EUR",
        "cost        0.000000077 EUR (posted; estimated, as the provider did not report all usage)",
    ]


@each_row("outcome", get_args(Outcome))
def test_every_outcome_has_a_page(outcome: Outcome) -> None:
    """Also where nothing is known of attempts, status and times yet."""
    receipt = replace(
        RECEIPT, outcome=outcome, attempts=None, status=None, first_byte_ms=None, ended_ms=None
    )
    page = page_receipt(replace(DETAIL, receipt=receipt), "EUR")
    assert f"({outcome}" in page


def test_every_price_is_named() -> None:
    amounts = dict.fromkeys(PRICES, 10**9)
    price = replace(Price(0, 0, 0, 0), **amounts, tools={"file_search": 7}, reported=1_200_000)
    page = page_receipt(replace(DETAIL, receipt=replace(RECEIPT, price=AppliedPrice(price))), "EUR")
    for name in amounts:
        assert f" {name} 1.00 " in page
    assert "file_search 0.000000007 per call" in page
    assert "1.2 × the provider's bill, where it tells it" in page
