"""Stripe: payment pages by its own package, which is synchronous, and `POST /webhooks/stripe`.

Amounts are counted in a currency's smallest unit there, see `config.settings`. An endpoint has to be told
of the events in `READERS`.

The webhook has no session, no cookie and no rule of origins: the signature is all that counts, and it
is checked first. The reply leaves only once what was told is committed. Whatever cannot be credited is
answered by 5xx, so that Stripe tells it again and the operator sees it there.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, Literal

import stripe
from aiohttp import hdrs, web

from gateway.api.front import make_front
from gateway.api.state import Call, Gateway
from gateway.cards.cashier import BadSignature, Cashier, ProviderRefused, ProviderUnavailable
from gateway.config.records import Cards
from gateway.config.settings import find_minor_nano
from gateway.console.dispatch import identify, read_bytes, refuse_method, render_error
from gateway.console.fields import ConsoleError, explain, too_many_tries, unavailable
from gateway.console.state import BooksThread
from gateway.console.throttle import ADDRESS_SECONDS, ADDRESS_TRIES, Tries, network_of
from gateway.errors import RESTARTING, drop_frames
from gateway.ledger.order_records import Fee, OrderView, PageState, Payment, Reversal
from gateway.ledger.records import Actor, Refused
from gateway.tasks import spawn

log = logging.getLogger("gateway.cards")

PATH: Final = "/webhooks/stripe"
SIGNATURE: Final = "Stripe-Signature"
MAX_BODY_BYTES: Final = 256 * 1024
"""Bytes of a message: a session or a charge has some thousand."""
AT_ONCE: Final = 100
"""Messages handled at once, 25 MiB in all. Stripe sends the others again."""
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


def add_cards(app: web.Application, gateway: Gateway, cards: Cards) -> Cashier:
    """Add the webhook and the chore to the application; return the cashier."""
    cashier = Cashier(Stripe(cards), BooksThread(gateway.config.storage.location))

    async def run(_: web.Application) -> AsyncIterator[None]:
        looking = spawn(cashier.run(), name="open-orders")
        yield
        looking.cancel()
        await cashier.close()

    app.cleanup_ctx.append(run)
    front = partial(make_front, gateway, surface="console")
    resource = app.router.add_resource(PATH)
    resource.add_route(hdrs.METH_POST, front(Webhook(cashier).handle))
    resource.add_route(hdrs.METH_ANY, front(refuse_method("POST")))
    return cashier


class Webhook:
    def __init__(self, cashier: Cashier) -> None:
        self._cashier = cashier
        self._under_way = 0
        self._tries = Tries(ADDRESS_TRIES, ADDRESS_SECONDS)
        """Wrong signatures, by address. A right one is always let in."""

    async def handle(self, http: web.Request, call: Call) -> web.StreamResponse:
        identify(http, call)
        self._under_way += 1
        try:
            await self._take(http, call)
        except Exception as error:  # noqa: BLE001 - each kind is told apart
            refusal = _explain(call.request_id, error)
            drop_frames(error)
            return render_error(call, refusal)
        finally:
            self._under_way -= 1
        return web.json_response({"received": True})

    async def _take(self, http: web.Request, call: Call) -> None:
        if call.gateway.draining:
            raise unavailable(RESTARTING)
        if self._under_way > AT_ONCE:
            raise unavailable("Too many messages at once.")
        body = await read_bytes(http, MAX_BODY_BYTES)
        address = call.visit["address"]
        try:
            told = self._cashier.provider.read_message(body, http.headers.get(SIGNATURE, ""))
        except BadSignature as error:
            if wait_seconds := self._tries.take(network_of(address)):
                raise too_many_tries(wait_seconds, "Too many wrong signatures.") from error
            raise ConsoleError(
                400,
                "bad_signature",
                "The signature is wrong, or older than five minutes. Compare webhook_secret with the"
                " endpoint's, and the machine's clock with the time.",
            ) from error
        if told is not None:
            await self._cashier.settle(told, Actor(self._cashier.provider.name, address))


def _explain(request_id: str, error: Exception) -> ConsoleError:
    match error:
        case Refused():
            log.error("%s: a payment is not credited: %s", request_id, error)
            return ConsoleError(500, "not_credited", f"Not credited: {error}.")
        case ProviderUnavailable() | ProviderRefused():
            log.error("%s: a payment cannot be looked up: %s", request_id, error)
            return ConsoleError(500, "not_credited", "The payment cannot be looked up.")
        case _:
            return explain(request_id, error)
