"""Stripe by its own package, which is synchronous: payment pages, look-ups, signed events."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

import orjson
import stripe

from gateway.base.times import DAY_MS
from gateway.base.tls import describe_tls
from gateway.extras.cards.provider import (
    BadMessage,
    BadSignature,
    ProviderRefused,
    ProviderUnavailable,
)
from gateway.extras.cards.records import Fee, OrderView, Payment, Reversal
from gateway.extras.cards.settings import Cards, find_minor_nano
from gateway.extras.cards.stripe_objects import (
    READERS,
    Reader,
    check_url,
    need_word,
    read_dispute,
    read_each,
    read_fee,
    read_object,
    read_objects,
    read_page,
    read_refund,
)

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
_DIGEST_CHARS: Final = 16
"""Hexadecimal digits that tell the parameters of one order's pages apart: 64 bits."""
_UNAVAILABLE: Final = (
    stripe.APIConnectionError,
    stripe.APIError,
    stripe.RateLimitError,
    stripe.IdempotencyError,  # the first request of this order is still under way
)


class Stripe:
    """Implements `provider.PaymentProvider`."""

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

    def make_page(self, order: OrderView, product: str, billing_url: str) -> tuple[str, str]:
        metadata = {"order": order.id}
        price = {
            "currency": order.currency.lower(),
            "unit_amount": order.amount_nano // find_minor_nano(order.currency),
            "product_data": {"name": product},
        }
        params: Any = {
            "mode": "payment",
            "line_items": [{"quantity": 1, "price_data": price}],
            "client_reference_id": order.id,
            "metadata": metadata,
            # Refunds name the payment, and its charge has this metadata.
            "payment_intent_data": {"metadata": metadata},
            "invoice_creation": {"enabled": True},
            # The session is to be in the order's currency, whatever the card's is.
            "adaptive_pricing": {"enabled": False},
            "success_url": f"{billing_url}?order={order.id}",
            "cancel_url": billing_url,
        }
        # With the same key Stripe makes no second page, but gives the first one again. It refuses the
        # key with other parameters, such as a name that was changed after a reply got lost.
        digest = hashlib.sha256(orjson.dumps(params)).hexdigest()[:_DIGEST_CHARS]
        with _telling():
            made = self._client.v1.checkout.sessions.create(
                params, {"idempotency_key": f"{order.id} {digest}"}
            ).to_dict()
            return need_word(made, "id"), check_url(made.get("url"))

    def look_up(self, session_id: str) -> Payment:
        with _telling():
            return read_page(self._client.v1.checkout.sessions.retrieve(session_id).to_dict())

    def find_page(self, payment_id: str) -> Payment | None:
        with _telling():
            found = self._client.v1.checkout.sessions.list({"payment_intent": payment_id})
            return next(map(read_page, read_objects(found.to_dict(), "data")), None)

    def find_fee(self, payment_id: str) -> Fee | None:
        with _telling():
            payment = self._client.v1.payment_intents.retrieve(
                payment_id, {"expand": ["latest_charge.balance_transaction"]}
            ).to_dict()
            charge = read_object(payment, "latest_charge") or {}
            move = read_object(charge, "balance_transaction")
            return None if move is None else read_fee("payment", move)

    def find_reversals(self, now_ms: int) -> Mapping[str, Iterator[list[Reversal | BadMessage]]]:
        v1 = self._client.v1
        return {
            "refunds": _read_list(v1.refunds, read_refund, now_ms - REFUNDS_MS),
            "disputes": _read_list(v1.disputes, read_dispute, now_ms - DISPUTES_MS),
        }

    def find_receipt(self, session_id: str) -> str | None:
        with _telling():
            page = self._client.v1.checkout.sessions.retrieve(
                session_id, {"expand": ["invoice"]}
            ).to_dict()
            url = (read_object(page, "invoice") or {}).get("hosted_invoice_url")
            return None if url is None else check_url(url)

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
        # The package raises the last two for some headers that Stripe did not send.
        except (stripe.StripeError, ValueError, TypeError) as error:
            raise BadSignature from error
        try:
            event = orjson.loads(body)
        except orjson.JSONDecodeError:
            raise BadMessage("it is no JSON") from None
        if not isinstance(event, dict):
            raise BadMessage("it is no object")
        read = READERS.get(need_word(event, "type"))
        # Connected accounts can make sessions that name any order, and get the money themselves.
        if read is None or event.get("account"):
            return None
        thing = read_object(read_object(event, "data") or {}, "object")
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
        if reason := describe_tls(error):
            words = f"{type(error).__name__}, TLS failed: {reason}"
        kind = ProviderUnavailable if isinstance(error, _UNAVAILABLE) else ProviderRefused
        raise kind(words) from None
    except BadMessage as error:
        raise ProviderRefused(f"what it answers cannot be read: {error}") from None


def _read_list(service: Any, read: Reader, since_ms: int) -> Iterator[list[Reversal | BadMessage]]:
    """Yield the pages of a list of Stripe's, from a time on."""
    params: dict[str, object] = {"created": {"gte": since_ms // 1000}, "limit": PAGE}
    has_more = True
    while has_more:
        with _telling():
            found = service.list(params).to_dict()
            things = list(read_objects(found, "data"))
            has_more = bool(things) and found.get("has_more") is True
            if has_more:
                params["starting_after"] = need_word(things[-1], "id")
        yield list(read_each(read, things))
