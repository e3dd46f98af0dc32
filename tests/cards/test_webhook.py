"""`POST /webhooks/stripe`: real signatures, events in any order, twice, late, false, or never."""

from __future__ import annotations

import asyncio
import itertools
import re
from typing import Any, Final

import pytest

from gateway.cards import stripe
from gateway.cards.stripe import READERS
from gateway.console.throttle import ADDRESS_TRIES
from gateway.money import NANO
from tests import ROOT
from tests.cards.conftest import Shop
from tests.cards.stripe_server import (
    PATH,
    make_charge,
    make_dispute,
    make_event,
    make_refund,
    sign,
    tell,
)
from tests.console.kit import API, HOLDER, OTHER
from tests.support.rows import told_together

COMPLETED: Final = "checkout.session.completed"
SUCCEEDED: Final = "checkout.session.async_payment_succeeded"
FAILED: Final = "checkout.session.async_payment_failed"
EXPIRED: Final = "checkout.session.expired"
NOT_CREDITED: Final = (500, "not_credited", None)


async def test_a_payment_becomes_an_entry(shop: Shop) -> None:
    session = shop.stripe.pay((await shop.open_page("12.50"))["id"])
    assert session["amount_total"] == 1250
    reply = await tell(shop.console, COMPLETED, session)
    assert (reply.status, reply.json) == (200, {"received": True})
    billing = (await shop.console.get(f"{API}/billing?kind=card")).json
    (entry,) = billing["entries"]
    assert (entry["amount"], billing["count"], shop.added_nano()) == ("12.50", 1, 12_500_000_000)
    assert shop.list_events("order.") == [
        ("order.make", HOLDER),
        ("order.page", HOLDER),
        ("order.pay", "stripe"),
    ]
    assert shop.added_nano(OTHER) == 0


async def test_what_is_not_signed_is_not_read(shop: Shop) -> None:
    session = shop.stripe.pay((await shop.open_page())["id"])
    body = make_event(COMPLETED, session)
    right = sign(body)
    rows = {
        "no header": "",
        "no signature": right.split(",")[0],
        "no time": right.partition(",")[2],
        "another secret": sign(body, secret="whsec_other"),
        "an empty secret": sign(body, secret=""),
        "another body": sign(body + b" "),
        "too old": sign(body, age_seconds=301),
        "another time": right.replace("t=", "t=9"),
        "another scheme": right.replace("v1=", "v0="),
        "no text": "t=1,v1=ä",
    }
    with told_together() as row:
        for name, signature in rows.items():
            with row(name):
                headers = {"Stripe-Signature": signature}
                reply = await shop.console.post(PATH, body, as_=None, headers=headers)
                assert reply.refusal == (400, "bad_signature", None)
    broken = b"\xff{"
    headers = {"Stripe-Signature": sign(broken)}
    assert (await shop.console.post(PATH, broken, as_=None, headers=headers)).status == 400
    assert (shop.added_nano(), shop.read_orders()[0].state) == (0, "made")
    # Nearly as old, and from nowhere, is good enough.
    headers = {"Stripe-Signature": sign(body, age_seconds=290), "Origin": "https://evil.example"}
    assert (await shop.console.post(PATH, body, as_=None, headers=headers)).status == 200
    assert shop.added_nano() == 10 * NANO


async def test_strangers_are_throttled_and_the_provider_is_not(shop: Shop) -> None:
    session = shop.stripe.pay((await shop.open_page())["id"])
    tried = [
        (await shop.console.post(PATH, b"{}", as_=None)).status for _ in range(ADDRESS_TRIES + 1)
    ]
    assert tried == [400] * ADDRESS_TRIES + [429]
    assert (await tell(shop.console, COMPLETED, session)).status == 200
    large = b" " * (stripe.MAX_BODY_BYTES + 1)
    assert (await shop.console.post(PATH, large, as_=None)).status == 413
    assert (await shop.console.get(PATH, as_=None)).status == 405


async def test_fifty_at_once_are_one(shop: Shop) -> None:
    session = shop.stripe.pay((await shop.open_page())["id"])
    replies = await asyncio.gather(*(tell(shop.console, COMPLETED, session) for _ in range(50)))
    assert {reply.status for reply in replies} == {200}
    assert shop.added_nano() == 10 * NANO


@pytest.mark.parametrize("order", list(itertools.permutations([COMPLETED, SUCCEEDED, EXPIRED])))
async def test_a_late_payment_counts_in_whatever_order_it_is_told(
    shop: Shop, order: tuple[str, ...]
) -> None:
    """`completed` was sent before the payment, which took days; all come twice."""
    before = dict(await shop.open_page(), status="complete")
    after = shop.stripe.pay(before["id"])
    sessions = {COMPLETED: before, SUCCEEDED: after, EXPIRED: before}
    for kind in order * 2:
        assert (await tell(shop.console, kind, sessions[kind])).status == 200
    assert (shop.added_nano(), shop.read_orders()[0].state) == (10 * NANO, "paid")


async def test_what_was_not_paid_is_not_credited(shop: Shop) -> None:
    for kind, state in ((COMPLETED, "made"), (FAILED, "failed"), (EXPIRED, "expired")):
        session = await shop.open_page()
        told = session | {"status": "expired"} if kind == EXPIRED else session
        assert (await tell(shop.console, kind, told)).status == 200
        assert shop.read_orders()[0].state == state
    session = shop.stripe.pay((await shop.open_page())["id"], payment_status="no_payment_required")
    assert (await tell(shop.console, COMPLETED, session)).status == 200
    assert shop.added_nano() == 0


async def test_what_contradicts_its_order_is_told_again_and_never_credited(shop: Shop) -> None:
    mine = shop.stripe.pay((await shop.open_page())["id"])
    others = shop.stripe.pay((await shop.open_page(as_=OTHER))["id"])
    rows: dict[str, dict[str, Any]] = {
        "less": {"amount_total": 999},
        "more": {"amount_total": 1001},
        "another currency": {"currency": "eur"},
        "another's page": {"id": others["id"]},
        "another's order": {"metadata": others["metadata"]},
        "unknown": {"id": "cs_9", "metadata": {"order": "order_9"}},
        "of no order": {"id": "cs_9", "client_reference_id": None, "metadata": None},
    }
    with told_together() as row:
        for name, wrong in rows.items():
            with row(name):
                for _ in range(2):
                    reply = await tell(shop.console, COMPLETED, mine | wrong)
                    assert reply.refusal == NOT_CREDITED
                assert (shop.added_nano(), shop.added_nano(OTHER)) == (0, 0)
    # What is right afterwards counts.
    for session in (mine, others):
        assert (await tell(shop.console, COMPLETED, session)).status == 200
    assert (shop.added_nano(), shop.added_nano(OTHER)) == (10 * NANO, 10 * NANO)


async def test_an_order_without_its_page_is_paid_by_no_other(shop: Shop) -> None:
    """Payers of a payment link choose its reference, and connected accounts all of their sessions."""
    shop.stripe.status = 503
    await shop.order()
    (order,) = shop.read_orders()
    assert (order.state, order.session_id) == ("made", None)
    wrong = {"id": "cs_9", "amount_total": 1000, "currency": "usd", "payment_status": "paid"}
    linked = {**wrong, "client_reference_id": order.id, "metadata": {}}
    assert (await tell(shop.console, COMPLETED, linked)).refusal == NOT_CREDITED
    body = make_event(COMPLETED, {**wrong, "metadata": {"order": order.id}}, account="acct_9")
    reply = await shop.console.post(PATH, body, as_=None, headers={"Stripe-Signature": sign(body)})
    assert (reply.status, shop.added_nano()) == (200, 0)


async def test_refunds_and_disputes_are_taken_back_once(shop: Shop) -> None:
    session = shop.stripe.pay((await shop.open_page())["id"])
    await tell(shop.console, COMPLETED, session)
    paid = session["payment_intent"]
    steps: list[tuple[str, dict[str, Any], int]] = [
        ("refund.created", make_refund(paid, 300, status="pending"), 700),
        ("charge.refunded", make_charge(paid, 300), 700),
        ("charge.refunded", make_charge(paid, 500), 500),
        ("refund.created", make_refund(paid, 200, id="re_2"), 500),
        ("refund.failed", make_refund(paid, 300, status="failed"), 800),
        ("charge.refund.updated", make_refund(paid, 300, status="failed"), 800),
        ("charge.dispute.created", make_dispute(paid, 1000, status="warning_needs_response"), 800),
        ("charge.dispute.closed", make_dispute(paid, 1000, status="warning_closed"), 800),
        ("charge.dispute.created", make_dispute(paid, 1000), -200),
        ("charge.dispute.funds_withdrawn", make_dispute(paid, 1000), -200),
        ("charge.dispute.closed", make_dispute(paid, 1000, status="won"), 800),
        ("charge.dispute.updated", make_dispute(paid, 1000), 800),
    ]
    with told_together() as row:
        for kind, thing, cents in steps:
            with row(kind):
                for _ in range(2):
                    assert (await tell(shop.console, kind, thing)).status == 200
                assert shop.added_nano() == cents * NANO // 100
    assert {kind for kind, *_ in steps} < READERS.keys()


async def test_a_refund_in_several_steps_ends_with_all_of_it(shop: Shop) -> None:
    """Whether it is told step by step, as sums, or both; one step fails, and is made again."""
    session = shop.stripe.pay((await shop.open_page())["id"])
    await tell(shop.console, COMPLETED, session)
    paid = session["payment_intent"]
    steps: list[tuple[str, dict[str, Any], int, str]] = [
        ("charge.refunded", make_charge(paid, 333), 667, "paid"),
        ("refund.created", make_refund(paid, 333), 667, "paid"),
        ("refund.created", make_refund(paid, 333, id="re_2"), 334, "paid"),
        ("refund.failed", make_refund(paid, 333, status="canceled"), 667, "paid"),
        ("refund.created", make_refund(paid, 333, id="re_3"), 334, "paid"),
        ("charge.refunded", make_charge(paid, 666), 334, "paid"),
        ("refund.created", make_refund(paid, 334, id="re_4"), 0, "refunded"),
        ("refund.updated", make_refund(paid, 334, id="re_4", status="failed"), 334, "paid"),
    ]
    for kind, thing, cents, state in steps:
        assert (await tell(shop.console, kind, thing)).status == 200
        (order,) = shop.read_orders()
        assert (shop.added_nano(), order.state) == (cents * NANO // 100, state)


async def test_a_refund_before_the_payment_is_told(shop: Shop) -> None:
    """The payment is looked up and credited first."""
    session = shop.stripe.pay((await shop.open_page())["id"])
    refund = make_refund(session["payment_intent"], 1000)
    shop.stripe.status = 503
    assert (await tell(shop.console, "refund.created", refund)).refusal == NOT_CREDITED
    shop.stripe.status = 200
    assert (await tell(shop.console, "refund.created", refund)).status == 200
    assert (shop.added_nano(), shop.read_orders()[0].state) == (0, "refunded")
    assert (await tell(shop.console, COMPLETED, session)).status == 200
    assert shop.added_nano() == 0
    foreign = make_refund("pi_9", 1000)
    assert (await tell(shop.console, "refund.created", foreign)).refusal == NOT_CREDITED
    unnamed = make_dispute("", 1000, payment_intent=None)
    assert (await tell(shop.console, "charge.dispute.created", unnamed)).refusal == NOT_CREDITED


async def test_other_events_are_none_of_ours(shop: Shop) -> None:
    assert (await tell(shop.console, "customer.created", {"id": "cus_1"})).status == 200


async def test_too_many_at_once_come_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    session = shop.stripe.pay((await shop.open_page())["id"])
    for _ in range(2):  # those that have ended do not count
        assert (await tell(shop.console, "customer.created", {"id": "cus_1"})).status == 200
    monkeypatch.setattr(stripe, "AT_ONCE", 0)
    assert (await tell(shop.console, COMPLETED, session)).status == 503
    monkeypatch.undo()
    assert shop.console.gateway is not None
    shop.console.gateway.draining = True
    assert (await tell(shop.console, COMPLETED, session)).status == 503
    assert shop.added_nano() == 0


def test_the_document_names_events_that_are_read() -> None:
    text = (ROOT / "gateway/docs/cards.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:checkout|charge|refund)\.[a-z_.]+)`", text))
    assert named <= READERS.keys()
    assert {READERS[name] for name in named} == set(READERS.values())
