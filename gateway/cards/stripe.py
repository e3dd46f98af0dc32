"""Stripe by its own package, which is synchronous: payment pages, and what its events say.

Amounts are counted in a currency's smallest unit there, see `config.settings`. An endpoint has to be told
of the events in `READERS`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

import stripe

from gateway.cards.cashier import BadSignature, ProviderRefused, ProviderUnavailable
from gateway.config.records import Cards
from gateway.config.settings import find_minor_nano
from gateway.ledger.order_records import Fee, OrderView, PageState, Payment, Reversal

TIMEOUT_SECONDS: Final = 10
"""How long Stripe may take to answer: a second is usual, a person waits, and so does the end of the
process."""
TOLERANCE_SECONDS: Final = 300
"""How old a message may be. Stripe signs each one anew when it sends it again."""
_ENDED_REFUNDS: Final = frozenset({"failed", "canceled"})
_INQUIRIES: Final = frozenset({"warning_needs_response", "warning_under_review", "warning_closed"})
"""States of disputes in which no money has moved. A closed one does not count as won: a won dispute is
final, but after a warning the bank may go on and take the money."""
_WON: Final = frozenset({"won", "prevented"})
_UNAVAILABLE: Final = (
    stripe.APIConnectionError,
    stripe.APIError,
    stripe.RateLimitError,
    stripe.IdempotencyError,  # the first request of this order is still under way
)

Object = Mapping[str, Any]


class Stripe:
    """Implements `cashier.PaymentProvider`."""

    name = "stripe"

    def __init__(self, cards: Cards) -> None:
        # Its log lines contain errors' texts, which may quote requests.
        logging.getLogger("stripe").setLevel(logging.CRITICAL)
        stripe.enable_telemetry = False
        self._webhook_secret = cards.webhook_secret
        self._client = stripe.StripeClient(
            cards.secret_key,
            base_addresses={"api": cards.base_url},
            # Holders, Stripe and the chore try again, and each of them later than at once.
            max_network_retries=0,
            http_client=stripe.RequestsClient(timeout=TIMEOUT_SECONDS),
        )

    def make_page(self, order: OrderView, billing_url: str) -> tuple[str, str]:
        told = {"order": order.id}
        price = {
            "currency": order.currency.lower(),
            "unit_amount": order.amount_nano // find_minor_nano(order.currency),
            "product_data": {"name": "Credit"},
        }
        params: Any = {
            "mode": "payment",
            "line_items": [{"quantity": 1, "price_data": price}],
            "client_reference_id": order.id,
            "metadata": told,
            # Refunds name the payment, and its charge has these.
            "payment_intent_data": {"metadata": told},
            "invoice_creation": {"enabled": True},
            # The session is to be in the order's currency, whatever the card's is.
            "adaptive_pricing": {"enabled": False},
            "success_url": f"{billing_url}?order={order.id}",
            "cancel_url": billing_url,
        }
        with _telling():
            # With the same key Stripe makes no second page, but gives the first one again.
            made = self._client.v1.checkout.sessions.create(
                params, {"idempotency_key": order.id}
            ).to_dict()
        return made["id"], made["url"]

    def look_up(self, session_id: str) -> Payment:
        with _telling():
            return _read_page(self._client.v1.checkout.sessions.retrieve(session_id).to_dict())

    def find_page(self, payment_id: str) -> Payment | None:
        with _telling():
            found = self._client.v1.checkout.sessions.list({"payment_intent": payment_id}).to_dict()
        return next(map(_read_page, found["data"]), None)

    def find_fee(self, payment_id: str) -> Fee | None:
        with _telling():
            payment = self._client.v1.payment_intents.retrieve(
                payment_id, {"expand": ["latest_charge.balance_transaction"]}
            ).to_dict()
        charge = payment.get("latest_charge") or {}
        return next(_read_fees("payment", [charge.get("balance_transaction")]), None)

    def find_receipt(self, session_id: str) -> str | None:
        with _telling():
            page = self._client.v1.checkout.sessions.retrieve(
                session_id, {"expand": ["invoice"]}
            ).to_dict()
        invoice = page.get("invoice") or {}
        url = invoice.get("hosted_invoice_url")
        return url if isinstance(url, str) else None

    def find_url(self, order: OrderView) -> str | None:
        if order.payment_id is None:
            return None
        mode = "test/" if (order.session_id or "").startswith("cs_test_") else ""
        return f"https://dashboard.stripe.com/{mode}payments/{order.payment_id}"

    def read_message(self, body: bytes, signature: str) -> Payment | Reversal | None:
        try:
            event = stripe.Webhook.construct_event(
                body, signature, self._webhook_secret, TOLERANCE_SECONDS
            ).to_dict()
        # Whatever else a header or a body leads to that Stripe did not send.
        except (stripe.StripeError, ValueError, TypeError, RecursionError) as error:
            raise BadSignature from error
        read = READERS.get(event["type"])
        # Connected accounts make sessions of their own, for any order, and are paid for them.
        if read is None or event.get("account"):
            return None
        return read(event["data"]["object"])


@contextmanager
def _telling() -> Iterator[None]:
    """Translate Stripe's errors, whose texts may quote requests."""
    try:
        yield
    except stripe.StripeError as error:
        words = f"{type(error).__name__}, status {error.http_status}, code {error.code}"
        kind = ProviderUnavailable if isinstance(error, _UNAVAILABLE) else ProviderRefused
        raise kind(words) from None


def _read_page(session: Object, state: PageState = "open") -> Payment:
    """Read a session; `state` is what it is in if nothing was paid."""
    if session.get("payment_status") == "paid":
        state = "paid"
    elif session.get("status") == "expired":
        state = "expired"
    metadata = session.get("metadata") or {}
    return Payment(
        session["id"],
        # Whoever opens a payment link can choose its `client_reference_id`, and no metadata.
        metadata.get("order"),
        state,
        *_read_amount(session, "amount_total"),
        _read_id(session.get("payment_intent")) or None,
    )


def _read_refund(refund: Object) -> Reversal:
    return Reversal(
        refund["id"],
        "refund",
        _read_id(refund.get("payment_intent")),
        None,
        *_read_amount(refund, "amount"),
        stands=refund.get("status") not in _ENDED_REFUNDS,
    )


def _read_charge(charge: Object) -> Reversal:
    return Reversal(
        charge["id"],
        "refunds",
        _read_id(charge.get("payment_intent")),
        (charge.get("metadata") or {}).get("order"),
        *_read_amount(charge, "amount_refunded"),
        stands=True,
    )


def _read_dispute(dispute: Object) -> Reversal | None:
    if dispute.get("status") in _INQUIRIES:
        return None
    return Reversal(
        dispute["id"],
        "dispute",
        _read_id(dispute.get("payment_intent")),
        None,
        *_read_amount(dispute, "amount"),
        stands=dispute.get("status") not in _WON,
        fees=tuple(_read_fees("dispute", dispute.get("balance_transactions") or [])),
    )


def _read_fees(kind: Literal["payment", "dispute"], moves: Iterable[Any]) -> Iterator[Fee]:
    """Read the fees of moves of the balance at Stripe; one is only an id, or null, where none is told."""
    for move in moves:
        if isinstance(move, dict):
            yield Fee(move["id"], kind, *_read_amount(move, "fee"), int(move["created"]) * 1000)


def _read_amount(thing: Object, name: str) -> tuple[int, str]:
    """Return an amount in nano-units, and its currency."""
    currency = str(thing.get("currency") or "").upper()
    return int(thing.get(name) or 0) * find_minor_nano(currency), currency


def _read_id(thing: Any) -> str:
    """Return the id of what may be there as a whole; "" if it is not there."""
    return str(thing["id"] if isinstance(thing, dict) else thing or "")


READERS: Final[Mapping[str, Callable[[Object], Payment | Reversal | None]]] = {
    "checkout.session.completed": _read_page,
    "checkout.session.async_payment_succeeded": _read_page,
    "checkout.session.async_payment_failed": partial(_read_page, state="failed"),
    "checkout.session.expired": _read_page,
    "charge.refunded": _read_charge,
    **dict.fromkeys(
        ("refund.created", "refund.updated", "refund.failed", "charge.refund.updated"), _read_refund
    ),
    **dict.fromkeys(
        (
            "charge.dispute.created",
            "charge.dispute.updated",
            "charge.dispute.closed",
            "charge.dispute.funds_withdrawn",
            "charge.dispute.funds_reinstated",
        ),
        _read_dispute,
    ),
}
"""The events that an endpoint has to be sent."""
