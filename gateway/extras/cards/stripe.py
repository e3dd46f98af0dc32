"""Stripe by its own package, which is synchronous: payment pages, and what its events say.

Amounts are counted in a currency's smallest unit there, see `config.settings`. An endpoint has to be told
of the events in `READERS`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

import orjson
import stripe

from gateway.base.money import MAX_AMOUNT_NANO
from gateway.base.times import DAY_MS
from gateway.extras.cards.cashier import (
    BadMessage,
    BadSignature,
    ProviderRefused,
    ProviderUnavailable,
)
from gateway.extras.cards.records import Fee, OrderView, PageState, Payment, Reversal
from gateway.extras.cards.settings import Cards, find_minor_nano
from gateway.ledger.checks import MAX_MOMENT_MS

TIMEOUT_SECONDS: Final = 10
"""How long Stripe may take to answer: a second is usual, a person waits, and so does the end of the
process."""
PAGE: Final = 100
"""Refunds or disputes of one answer, the most that Stripe gives."""
REFUNDS_MS: Final = 60 * DAY_MS
"""How far back refunds are looked up: a bank returns one that fails within a month."""
DISPUTES_MS: Final = 180 * DAY_MS
"""How far back disputes are looked up: cards' networks decide them within three months or so."""
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

_WORD: Final = re.compile(r"[!-~]{1,255}")
"""Ids are parts of keys and paths; Stripe's have up to 255 characters."""
_URL: Final = re.compile(r"https?://[!-~]{1,8000}")
_MAX_SECONDS: Final = MAX_MOMENT_MS // 1000
"""The latest Unix time that can be written as a date."""

Object = Mapping[str, Any]
Reader = Callable[[Object], Payment | Reversal | None]


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
            return _need_word(made, "id"), _check_url(made.get("url"))

    def look_up(self, session_id: str) -> Payment:
        with _telling():
            return _read_page(self._client.v1.checkout.sessions.retrieve(session_id).to_dict())

    def find_page(self, payment_id: str) -> Payment | None:
        with _telling():
            found = self._client.v1.checkout.sessions.list({"payment_intent": payment_id})
            return next(map(_read_page, _read_objects(found.to_dict(), "data")), None)

    def find_fee(self, payment_id: str) -> Fee | None:
        with _telling():
            payment = self._client.v1.payment_intents.retrieve(
                payment_id, {"expand": ["latest_charge.balance_transaction"]}
            ).to_dict()
            charge = _read_object(payment, "latest_charge") or {}
            move = _read_object(charge, "balance_transaction")
            return None if move is None else _read_fee("payment", move)

    def find_reversals(self, now_ms: int) -> Mapping[str, Iterator[list[Reversal | BadMessage]]]:
        v1 = self._client.v1
        return {
            "refunds": _read_list(v1.refunds, _read_refund, now_ms - REFUNDS_MS),
            "disputes": _read_list(v1.disputes, _read_dispute, now_ms - DISPUTES_MS),
        }

    def find_receipt(self, session_id: str) -> str | None:
        with _telling():
            page = self._client.v1.checkout.sessions.retrieve(
                session_id, {"expand": ["invoice"]}
            ).to_dict()
            url = (_read_object(page, "invoice") or {}).get("hosted_invoice_url")
            return None if url is None else _check_url(url)

    def find_url(self, order: OrderView) -> str | None:
        if order.payment_id is None:
            return None
        mode = "test/" if (order.session_id or "").startswith("cs_test_") else ""
        return f"https://dashboard.stripe.com/{mode}payments/{order.payment_id}"

    def read_message(self, body: bytes, signature: str) -> Payment | Reversal | None:
        try:
            stripe.WebhookSignature.verify_header(
                body, signature, self._webhook_secret, TOLERANCE_SECONDS
            )
        # Whatever else a header leads to that Stripe did not send.
        except (stripe.StripeError, ValueError, TypeError) as error:
            raise BadSignature from error
        try:
            event = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise BadMessage("it is no JSON") from None
        if not isinstance(event, dict):
            raise BadMessage("it is no object")
        read = READERS.get(_need_word(event, "type"))
        # Connected accounts make sessions of their own, for any order, and are paid for them.
        if read is None or event.get("account"):
            return None
        thing = _read_object(_read_object(event, "data") or {}, "object")
        if thing is None:
            raise BadMessage("it has no data.object")
        return read(thing)


@contextmanager
def _telling() -> Iterator[None]:
    """Translate Stripe's errors, whose texts may quote requests, and answers that cannot be read."""
    try:
        yield
    except stripe.StripeError as error:
        words = f"{type(error).__name__}, status {error.http_status}, code {error.code}"
        kind = ProviderUnavailable if isinstance(error, _UNAVAILABLE) else ProviderRefused
        raise kind(words) from None
    except BadMessage as error:
        raise ProviderRefused(f"what it answers cannot be read: {error}") from None


def _read_page(session: Object, state: PageState = "open") -> Payment:
    """Read a session; `state` is what it is in if nothing was paid."""
    if _read_word(session, "payment_status") == "paid":
        state = "paid"
    elif _read_word(session, "status") == "expired":
        state = "expired"
    return Payment(
        _need_word(session, "id"),
        # Whoever opens a payment link can choose its `client_reference_id`, and no metadata.
        _read_order_id(session),
        state,
        *_read_amount(session, "amount_total"),
        _read_id(session, "payment_intent") or None,
    )


def _read_refund(refund: Object) -> Reversal:
    return Reversal(
        _need_word(refund, "id"),
        "refund",
        _read_id(refund, "payment_intent"),
        None,
        *_read_amount(refund, "amount"),
        stands=_read_word(refund, "status") not in _ENDED_REFUNDS,
    )


def _read_charge(charge: Object) -> Reversal:
    return Reversal(
        _need_word(charge, "id"),
        "refunds",
        _read_id(charge, "payment_intent"),
        _read_order_id(charge),
        *_read_amount(charge, "amount_refunded"),
        stands=True,
    )


def _read_dispute(dispute: Object) -> Reversal | None:
    status = _read_word(dispute, "status")
    if status in _INQUIRIES:
        return None
    moves = _read_objects(dispute, "balance_transactions")
    return Reversal(
        _need_word(dispute, "id"),
        "dispute",
        _read_id(dispute, "payment_intent"),
        None,
        *_read_amount(dispute, "amount"),
        stands=status not in _WON,
        fees=tuple(_read_fee("dispute", one) for one in moves),
    )


def _read_list(service: Any, read: Reader, since_ms: int) -> Iterator[list[Reversal | BadMessage]]:
    """Yield the pages of a list of Stripe's, from a time on."""
    params: dict[str, object] = {"created": {"gte": since_ms // 1000}, "limit": PAGE}
    has_more = True
    while has_more:
        with _telling():
            found = service.list(params).to_dict()
            things = list(_read_objects(found, "data"))
            has_more = bool(things) and found.get("has_more") is True
            if has_more:
                params["starting_after"] = _need_word(things[-1], "id")
        yield list(_read_each(read, things))


def _read_each(read: Reader, things: Iterable[Object]) -> Iterator[Reversal | BadMessage]:
    """Read the objects of a page. One that cannot be read must not hide the others."""
    for thing in things:
        try:
            found = read(thing)
        except BadMessage as error:
            id_ = thing.get("id")
            named = id_ if isinstance(id_, str) and _WORD.fullmatch(id_) else "one without an id"
            yield BadMessage(f"{named}: {error}")
        else:
            if isinstance(found, Reversal):
                yield found


def _read_fee(kind: Literal["payment", "dispute"], move: Object) -> Fee:
    """Read the fee of a move of the balance at Stripe."""
    created = _read_integer(move, "created", 0, _MAX_SECONDS)
    return Fee(
        _need_word(move, "id"), kind, *_read_amount(move, "fee", signed=True), created * 1000
    )


def _read_amount(thing: Object, name: str, *, signed: bool = False) -> tuple[int, str]:
    """Return an amount in nano-units, and its currency in capitals."""
    currency = (_read_word(thing, "currency") or "").upper()
    minor_nano = find_minor_nano(currency)
    most = MAX_AMOUNT_NANO // minor_nano
    return _read_integer(thing, name, -most if signed else 0, most) * minor_nano, currency


def _read_integer(thing: Object, name: str, least: int, most: int) -> int:
    """Return a number, or 0 if there is none."""
    value = thing.get(name)
    if value is None:
        return 0
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
        raise BadMessage(f"its {name} is no number that can be")
    return value


def _read_word(thing: Object, name: str) -> str | None:
    """Return an id, a state or the like; None if there is none."""
    value = thing.get(name)
    if value is None or (isinstance(value, str) and _WORD.fullmatch(value)):
        return value
    raise BadMessage(f"its {name} is no word")


def _need_word(thing: Object, name: str) -> str:
    value = _read_word(thing, name)
    if value is None:
        raise BadMessage(f"it has no {name}")
    return value


def _read_id(thing: Object, name: str) -> str:
    """Return the id of what may be there as a whole; "" if it is not there."""
    value = thing.get(name)
    return _need_word(value, "id") if isinstance(value, dict) else _read_word(thing, name) or ""


def _read_order_id(thing: Object) -> str | None:
    """Return the id of an order, unless the metadata are of somebody else, who may write anything."""
    value = (_read_object(thing, "metadata") or {}).get("order")
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _read_object(thing: Object, name: str) -> Object | None:
    """Return an object; None if there is none, or its id alone."""
    value = thing.get(name)
    if value is None or isinstance(value, str):
        return None
    if not isinstance(value, dict):
        raise BadMessage(f"its {name} is no object")
    return value


def _read_objects(thing: Object, name: str) -> Iterator[Object]:
    """Yield the objects of a list, which may be missing, and may have ids alone."""
    value = thing.get(name)
    if value is not None and not isinstance(value, list):
        raise BadMessage(f"its {name} is no list")
    return (one for one in value or () if isinstance(one, dict))


def _check_url(value: object) -> str:
    """Return an address to which people are sent, so it becomes a header."""
    if not isinstance(value, str) or not _URL.fullmatch(value):
        raise BadMessage("an address in it is none")
    return value


READERS: Final[Mapping[str, Reader]] = {
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
