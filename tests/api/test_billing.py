"""The money of one request: its hold, the usage that is plausible, its one settlement."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest

from gateway.api.admission import expect_usage
from gateway.api.billing import Bill, open_bill
from gateway.api.front import KeyedCall
from gateway.api.lifecycle import Last, Owed, Verdict
from gateway.api.limits import Bucket, Rates
from gateway.base.errors import BalanceHeld, InsufficientBalance, RateLimited
from gateway.base.money import MAX_AMOUNT_NANO, Price, Tokens
from gateway.base.prices import (
    NOTHING_SPECIAL,
    UNSAID,
    BillOptions,
    BillTerms,
    PriceList,
    PriceRule,
)
from gateway.base.usage import Metered, MissingUsages
from gateway.config.records import Model
from gateway.dialects.wire.records import CompletionRequest, Payload
from gateway.ledger.base import Hold, Key
from gateway.ledger.call_records import Outcome
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import drop_hold
from gateway.ledger.sqlite.serving import open_sqlite
from tests.ledger.kit import Place, assert_sound, find_key, make_place, query
from tests.support.records import make_bill_config, make_call
from tests.support.waiting import until

MAX_INPUT: Final = 5000
MAX_OUTPUT: Final = 400
HOLD_OUTPUT: Final = 100
FULL_BELOW: Final = 10
NOW: Final = 1000.0
TOKENS_PER_MINUTE: Final = 1000
CREDIT_NANO: Final = 10_000
PRICE: Final = Price(input=10**6, output=10**6, cached_input=10**6, cache_write=10**6)
"""A nano-unit a token."""
MODEL: Final = Model("m", "o", (), MAX_OUTPUT, MAX_INPUT, None, 0, PriceList(PRICE), frozenset())
REQUEST: Final = CompletionRequest({}, "m", False, False, 1, None, 0, 0)
PAYLOAD: Final = Payload(b"x" * 40, NOTHING_SPECIAL)
INPUT: Final = 10


def charge(bill: Bill, outcome: Outcome, status: int, metered: Metered) -> Awaitable[None]:
    """Settle what was used."""
    settled = bill.settle(Verdict(outcome, status, Owed.USAGE, Last.REPLY), lambda: metered)
    assert settled is not None
    return settled


def void(bill: Bill, outcome: Outcome, status: int) -> None:
    assert bill.settle(Verdict(outcome, status, Owed.NOTHING, Last.ERROR), None) is None


FULL: Final = INPUT + MAX_OUTPUT
DEAR: Final = PriceRule(replace(PRICE, output=3 * 10**6, tools={"x": 50}), input_above=5)
TOOLS: Final = PriceList(replace(PRICE, tools={"x": 20}), (DEAR,))
MEDIA: Final = PriceList(replace(PRICE, audio_input=2 * 10**6, image_output=2 * 10**6))
VAST: Final = PriceList(replace(PRICE, output=10**21))
HOLDS: Final[list[tuple[int, dict[str, Any], dict[str, Any], dict[str, Any], int]]] = [
    # the money, what the request says, the model, what is asked of the provider, and the hold
    # With plenty of money it is what caller and model let expect.
    (CREDIT_NANO, {}, {}, {}, INPUT + HOLD_OUTPUT),
    (CREDIT_NANO, {"max_tokens": 7}, {}, {}, INPUT + 7),
    (CREDIT_NANO, {"max_tokens": 10**9}, {}, {}, INPUT + HOLD_OUTPUT),
    (CREDIT_NANO, {"max_tokens": 7, "n": 3}, {}, {}, INPUT + 21),
    (CREDIT_NANO, {"n": 2}, {}, {}, INPUT + 2 * HOLD_OUTPUT),
    (CREDIT_NANO, {}, {"max_output_tokens": 9}, {}, INPUT + 9),
    # Little money is held for all that a request may cost, at the dearest price, with what tools find.
    (FULL_BELOW * FULL, {}, {}, {}, INPUT + HOLD_OUTPUT),
    (FULL_BELOW * FULL - 1, {}, {}, {}, FULL),
    (1, {}, {}, {}, FULL),
    (1, {"max_tokens": 10**9, "n": 2}, {}, {}, INPUT + 2 * MAX_OUTPUT),
    (FULL_BELOW * (INPUT + 200) - 1, {"max_tokens": 200}, {}, {}, INPUT + 200),
    (1, {"max_tokens": 7}, {}, {}, INPUT + 7),
    (1, {"max_tokens": 7, "more_tokens": 50}, {}, {}, INPUT + 50 + 7),
    (1, {"max_tokens": 7, "more_tokens": 10**9}, {"prices": MEDIA}, {}, 2 * MAX_INPUT + 7),
    (CREDIT_NANO, {"max_tokens": 7, "more_tokens": 50}, {}, {}, INPUT + 7),
    (1, {}, {"prices": TOOLS}, {"tool_calls": {"x": 2}}, MAX_INPUT + 3 * MAX_OUTPUT + 100),
    # Recordings and pictures have prices of their own: what a request says, or its reply may show.
    (CREDIT_NANO, {"audio_tokens": 4}, {"prices": MEDIA}, {}, INPUT + 4 + HOLD_OUTPUT),
    (CREDIT_NANO, {}, {"prices": MEDIA}, {"media": ("image_output",)}, INPUT + 2 * HOLD_OUTPUT),
    # The ledger can charge no more.
    (CREDIT_NANO, {}, {"prices": VAST, "max_output_tokens": 10**6}, {}, MAX_AMOUNT_NANO),
]


@pytest.mark.parametrize("case", HOLDS)
async def test_a_hold_is_for_what_is_expected_or_for_all_that_is_possible(
    desk: Desk, case: tuple[int, dict[str, Any], dict[str, Any], dict[str, Any], int]
) -> None:
    available, says, has, asks, held = case
    desk.key.account.balance_nano = available
    void(
        desk.take(replace(REQUEST, **says), replace(MODEL, **has), BillOptions(**asks)),
        "rejected",
        400,
    )
    assert desk.held_nano == held
    desk.key.account.balance_nano = CREDIT_NANO


async def test_who_leaves_pays_what_was_expected_however_much_was_held(desk: Desk) -> None:
    """The full hold is for the worst; a small balance is no reason to charge it."""
    desk.key.account.balance_nano = CREDIT_NANO // 3
    bill = desk.take()
    assert desk.held_nano == FULL
    left = Verdict("caller_left", 200, Owed.EXPECTED, Last.NOTHING)
    settled = bill.settle(left, None)
    assert settled is not None
    await settled
    assert desk.key.account.balance_nano == CREDIT_NANO - INPUT - HOLD_OUTPUT


@dataclass(slots=True)
class Desk:
    """A ledger with one key, and the bill of one request."""

    ledger: ServingLedger
    call: KeyedCall
    place: Place
    held_nano: int = 0
    """The amount of the last hold when it was taken."""

    def take(
        self,
        request: CompletionRequest = REQUEST,
        model: Model = MODEL,
        asked: BillOptions = NOTHING_SPECIAL,
    ) -> Bill:
        """Take the hold."""
        expected = expect_usage(request, replace(PAYLOAD, options=asked), model)
        bill = open_bill(self.call, request, model, expected)
        self.held_nano = self.key.held_nano
        return bill

    @property
    def key(self) -> Key:
        return find_key(self.ledger, self.place)

    @property
    def tokens_left(self) -> float:
        """How many tokens the key may use at this moment."""
        assert self.call.rates.tokens is not None
        return self.call.rates.tokens.level


@pytest.fixture
async def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Desk]:
    monkeypatch.setattr("gateway.api.billing.time", SimpleNamespace(monotonic=lambda: NOW))
    place = make_place(tmp_path, credit_nano=CREDIT_NANO)
    async with open_sqlite(place.path) as ledger:
        rates = Rates(tokens=Bucket(TOKENS_PER_MINUTE, NOW))
        key = find_key(ledger, place)
        config, missing = make_bill_config(HOLD_OUTPUT, FULL_BELOW), MissingUsages()
        gateway = SimpleNamespace(ledger=ledger, config=config, missing_usages=missing)
        call = make_call(gateway=gateway, started=NOW, key=key, rates=rates)
        yield Desk(ledger, call, place)
    assert_sound(place.path)


async def test_a_hold_counts_what_is_expected(desk: Desk) -> None:
    """Before it is confirmed, and after that."""
    bill = desk.take()
    for _ in range(2):
        assert desk.tokens_left == TOKENS_PER_MINUTE - INPUT - HOLD_OUTPUT
        assert desk.key.held_nano == INPUT + HOLD_OUTPUT
        assert desk.call.balance_nano == CREDIT_NANO, "what was available before it"
        await bill.confirm()
    void(bill, "upstream_error", 502)


async def test_a_refused_hold_gives_its_tokens_back(desk: Desk) -> None:
    desk.key.account.balance_nano = 0
    with pytest.raises(InsufficientBalance):
        desk.take()
    assert desk.tokens_left == TOKENS_PER_MINUTE
    assert desk.call.balance_nano is None
    desk.key.account.balance_nano = CREDIT_NANO


async def test_a_hold_that_is_not_confirmed_gives_its_tokens_back(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def decline(hold: Hold) -> None:
        drop_hold(hold)
        raise BalanceHeld("held by others")

    bill = desk.take()
    monkeypatch.setattr(desk.ledger, "confirm", decline)
    with pytest.raises(BalanceHeld):
        await bill.confirm()
    assert desk.tokens_left == TOKENS_PER_MINUTE
    assert (desk.call.balance_nano, desk.call.settlement) == (None, None)


async def test_without_tokens_there_is_no_hold(desk: Desk) -> None:
    desk.call.rates.take_tokens(TOKENS_PER_MINUTE, NOW)
    with pytest.raises(RateLimited):
        desk.take()
    assert desk.key.held_nano == 0


USED: Final = Tokens(input=11, output=7)


@pytest.mark.parametrize("again", ["settle", "void"])
async def test_a_second_settlement_changes_nothing(desk: Desk, again: str) -> None:
    """Neither the charge, nor the rate, nor what the log tells."""
    bill = desk.take()
    settled = charge(bill, "complete", 200, Metered(USED, estimated=False))
    if again == "void":
        void(bill, "internal_error", 500)
    else:
        assert charge(bill, "shutdown", 503, Metered(Tokens(900), estimated=True)) is settled
    await settled
    void(bill, "internal_error", 500)
    end = desk.call.settlement
    assert end is not None
    assert (end.outcome, end.status) == ("complete", 200)
    assert (end.tokens, end.cost_nano) == (USED, USED.total)
    assert desk.tokens_left == TOKENS_PER_MINUTE - USED.total
    assert desk.key.account.balance_nano == CREDIT_NANO - USED.total
    assert read_row(desk) == ("posted", "complete", 200, USED.total)


async def test_what_is_void_stays_void(desk: Desk) -> None:
    bill = desk.take()
    void(bill, "upstream_error", 502)
    await charge(bill, "complete", 200, Metered(USED, estimated=False))
    end = desk.call.settlement
    assert end is not None
    assert (end.outcome, end.status, end.cost_nano) == ("upstream_error", 502, 0)
    assert desk.tokens_left == TOKENS_PER_MINUTE
    assert (desk.key.account.balance_nano, desk.key.held_nano) == (CREDIT_NANO, 0)
    assert read_row(desk) == ("voided", "upstream_error", 502, 0)


def read_row(desk: Desk) -> tuple[object, ...]:
    (row,) = query(desk.place.path, "SELECT state, outcome, status, cost_nano FROM requests")
    return row


COST: Final = Price(input=10**5, output=10**5, cached_input=10**5, cache_write=10**5)
"""A tenth of a nano-unit a token."""
FAST: Final = PriceRule(Price(10**6, 10**6, 10**6, 10**6), speed="fast")


@pytest.mark.parametrize(
    ("provider", "terms", "cost_nano"),
    [("alpha", UNSAID, 4), ("alpha", BillTerms(speed="fast"), 35), ("beta", UNSAID, None)],
)
async def test_a_charge_has_the_cost_of_the_provider_that_served(
    desk: Desk, provider: str, terms: BillTerms, cost_nano: int | None
) -> None:
    """Rounded up once, as charges are; the report is kept as it is."""
    model = replace(MODEL, costs={"alpha": PriceList(COST, (FAST,))})
    bill = desk.take(model=model)
    desk.call.provider = provider
    await charge(bill, "complete", 200, Metered(Tokens(30, 0, 0, 5), False, {}, terms, False, 77))
    columns = "SELECT cost_nano, provider_cost_nano, reported_cost_nano FROM requests"
    assert query(desk.place.path, columns) == [(35, cost_nano, 77)]


async def test_a_reply_without_a_usage_is_noted(desk: Desk) -> None:
    bill = desk.take()
    desk.call.provider = "alpha"
    await charge(bill, "complete", 200, Metered(USED, estimated=True, unreported=True))
    (noted,) = desk.call.gateway.missing_usages.list_latest()
    assert (noted.provider, noted.model, noted.count) == ("alpha", "m", 1)


async def test_a_void_has_no_cost(desk: Desk) -> None:
    bill = desk.take(model=replace(MODEL, costs={"": PriceList(COST)}))
    void(bill, "upstream_error", 502)
    state = "SELECT state FROM requests"
    await until(lambda: query(desk.place.path, state) == [("voided",)], "the void")
    columns = "SELECT provider_cost_nano, reported_cost_nano FROM requests"
    assert query(desk.place.path, columns) == [(None, None)]
