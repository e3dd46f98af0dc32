"""Fees of the payment provider: looked up once for a payment, told with a dispute."""

from __future__ import annotations

import logging
from typing import Any, Final

import pytest

from gateway.ledger.order_records import FeeSums
from gateway.money import NANO
from tests.cards.conftest import Shop
from tests.cards.stripe_server import make_dispute, make_move, tell
from tests.cards.test_orders import make_cashier
from tests.console.kit import API, HOLDER, OPERATOR, OTHER
from tests.support.cli import run_here

CENT: Final = NANO // 100
ALWAYS: Final = (0, 10**15)


async def pay(shop: Shop, as_: str = HOLDER) -> dict[str, Any]:
    session = shop.stripe.pay((await shop.open_page(as_=as_))["id"])
    await tell(shop.console, "checkout.session.completed", session)
    return session


async def test_the_fee_of_a_payment_is_looked_up_until_it_is_known(shop: Shop) -> None:
    """Stripe knows it a moment after the payment. It is told to operators alone, and moves no balance."""
    session, looking = await pay(shop), make_cashier(shop)
    await shop.open_page()  # an open one has none
    costs = f"{API}/costs"
    for move, fee in ((None, None), (make_move("txn_1", 59), "0.59")):
        if move:
            shop.stripe.moves[session["payment_intent"]] = move
        await looking.find_fees()
        told = (await shop.console.get(costs, as_=OPERATOR)).json
        fees = [{"currency": "USD", "orders": 1, "fee": fee, "fee_nano": 59 * CENT}]
        assert told["card_fees"] == (fees if fee else [])
        assert told["card_fees_unknown"] == (0 if fee else 1)
    asked = len(shop.stripe.asked)
    await looking.find_fees()
    assert len(shop.stripe.asked) == asked, "it is known"
    assert shop.list_events("order.fee") == [("order.fee", "system")]
    assert shop.added_nano() == 10 * NANO
    told = (await shop.console.get(f"{costs}?account={OTHER}", as_=OPERATOR)).json
    assert (told["card_fees"], told["card_fees_unknown"]) == ([], 0)
    path = f"{API}/billing/orders/{session['client_reference_id']}"
    assert "fee" not in (await shop.console.get(path)).body.decode()
    config = ["--config", str(shop.console.folder / "gateway.toml")]
    assert "0.59 USD" in run_here(["orders", *config], {}).out
    await looking.close()


async def test_a_fee_that_is_refused_holds_up_no_later_one(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    """A restricted key may have no right to read them: a look asks once, and payments are credited."""
    sessions = [await pay(shop) for _ in range(3)]
    looking, asked = make_cashier(shop), len(shop.stripe.asked)
    shop.stripe.status = 403
    with caplog.at_level(logging.WARNING, "gateway.cards"):
        await looking.find_fees()
    latest = sessions[-1]["payment_intent"]
    assert shop.stripe.asked[asked:] == [f"GET /v1/payment_intents/{latest}"]
    assert "its fee is refused" in caplog.text
    await looking.close()


async def test_a_dispute_tells_its_fees(shop: Shop) -> None:
    """In any order, each once; one that is won may give a fee back. Currencies are not mixed."""
    session, looking = await pay(shop), make_cashier(shop)
    paid = session["payment_intent"]
    taken, returned = make_move("txn_2", 1500), make_move("txn_3", -1500)
    steps: list[tuple[str, list[dict[str, Any]], int | None]] = [
        ("needs_response", [], None),
        ("won", [taken, returned], 0),
        ("needs_response", [taken], 0),
    ]
    for status, moves, cents in steps:
        dispute = make_dispute(paid, 1000, status=status, balance_transactions=moves)
        assert (await tell(shop.console, "charge.dispute.updated", dispute)).status == 200
        (order,) = shop.read_orders()
        assert order.fee_nano == cents
    shop.stripe.moves[paid] = make_move("txn_1", 55, currency="jpy")
    await looking.find_fees()
    (order,) = shop.read_orders()
    assert (order.fee_nano, order.fee_currency) == (None, None)
    with shop.console.open_books() as books:
        sums = books.orders.sum_fees(None, *ALWAYS)
    assert sums == FeeSums((("JPY", 1, 55 * NANO), ("USD", 1, 0)), unknown=0)
    await looking.close()
