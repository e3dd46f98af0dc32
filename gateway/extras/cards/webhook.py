"""`POST /webhooks/stripe`, by which Stripe tells what was paid; adds all of cards to the application.

The webhook has no session, no cookie and no rule of origins: the signature is all that counts, and it
is checked first. The reply leaves only once the message's result is committed. Payments that cannot be
credited are answered by 5xx, so that Stripe sends the message again and the operator sees it there.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Final

from aiohttp import hdrs, web

from gateway.api.front import Call, make_front
from gateway.api.keys import note_known
from gateway.api.state import Gateway
from gateway.base.errors import RESTARTING, drop_frames
from gateway.base.money import describe_amount, format_amount
from gateway.base.turns import spawn
from gateway.extension import Started
from gateway.extras.cards.cashier import Cashier
from gateway.extras.cards.provider import (
    BadMessage,
    BadSignature,
    ProviderRefused,
    ProviderUnavailable,
)
from gateway.extras.cards.records import Payment, Reversal
from gateway.extras.cards.settings import Cards, find_problem
from gateway.extras.cards.stripe import Stripe
from gateway.extras.console.bodies import read_bytes, render_error
from gateway.extras.console.dispatch import identify, refuse_method
from gateway.extras.console.errors import ConsoleError, explain, too_many_tries, unavailable
from gateway.extras.console.state import BooksThread
from gateway.extras.signins.throttle import ADDRESS_SECONDS, ADDRESS_TRIES, Tries, network_of
from gateway.ledger.records import Actor, Location, Refused

log = logging.getLogger("gateway.cards")

PATH: Final = "/webhooks/stripe"
SIGNATURE: Final = "Stripe-Signature"
MAX_BODY_BYTES: Final = 256 * 1024
"""Bytes of a message: a session or a charge has some thousand."""
ARRIVING: Final = 200
"""Bodies that may be arriving at once, 50 MiB in all."""
ARRIVING_ADDRESS: Final = 50
"""How many of them may be of one address: Stripe sends some dozen messages at once."""
AT_ONCE: Final = 100
"""Signed messages that are handled at once. Stripe sends the others again."""


def start(gateway: Gateway, cards: Cards) -> Started:
    """Begin to take payments beside a gateway, at the webhook and in the console."""
    config = gateway.config
    cashier = make_cashier(cards, config.billing.currency, config.storage.location)
    return Started(add_routes=partial(_add_webhook, gateway, cashier), offers=(cashier,))


def make_cashier(cards: Cards, currency: str, location: Location) -> Cashier:
    offer, problems = _describe(cards, currency), partial(find_problem, cards, currency)
    return Cashier(Stripe(cards), BooksThread(location), offer, problems)


def _describe(cards: Cards, currency: str) -> Mapping[str, object]:
    amounts = [format_amount(nano) for nano in cards.amounts_nano]
    bounds = {
        **describe_amount("minimum", cards.minimum_nano),
        **describe_amount("maximum", cards.maximum_nano),
    }
    return {"cards": {"currency": currency, "amounts": amounts, **bounds}}


def _add_webhook(gateway: Gateway, cashier: Cashier, app: web.Application) -> None:
    """Add the webhook and the chore to the application."""

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


class Arrivals:
    """Reads bodies before their signatures can be checked.

    A new body is always let in. If that makes too many of its address, or of all, the oldest body of
    that address, or of the address that has most, is dropped. A message of Stripe's is here within a
    moment, so strangers' bodies, which never end, are dropped before it.
    """

    def __init__(self) -> None:
        self._networks: dict[asyncio.Timeout, str] = {}
        """The bodies that are arriving, the oldest first; one is dropped by its time-out."""

    async def read(self, http: web.Request, network: str) -> bytes:
        """Read a whole body. Raises ConsoleError."""
        self._make_room(network)
        dropped = asyncio.timeout(None)
        self._networks[dropped] = network
        try:
            async with dropped:
                return await read_bytes(http, MAX_BODY_BYTES)
        except TimeoutError as error:
            words = "Too many requests without an end. Send it again, all at once."
            raise ConsoleError(408, "too_slow", words) from error
        finally:
            self._networks.pop(dropped, None)

    def _make_room(self, network: str) -> None:
        counts = Counter(self._networks.values())
        if counts[network] < ARRIVING_ADDRESS:
            if len(self._networks) < ARRIVING:
                return
            # Of addresses that have as many, this is the one whose oldest body is the oldest.
            network = max(counts, key=counts.__getitem__)
        oldest = next(one for one, place in self._networks.items() if place == network)
        del self._networks[oldest]
        oldest.reschedule(0)


class Webhook:
    def __init__(self, cashier: Cashier) -> None:
        self._cashier = cashier
        self._arrivals = Arrivals()
        self._under_way = 0
        self._tries = Tries(ADDRESS_TRIES, ADDRESS_SECONDS)
        """Wrong signatures, by address. A right one is always let in."""

    async def handle(self, http: web.Request, call: Call) -> web.StreamResponse:
        identify(http, call)
        try:
            await self._take(http, call)
        except Exception as error:  # noqa: BLE001 - each kind is told apart
            refusal = _explain(call.request_id, error)
            drop_frames(error)
            return render_error(call, refusal)
        return web.json_response({"received": True})

    async def _take(self, http: web.Request, call: Call) -> None:
        if call.gateway.draining:
            raise unavailable(RESTARTING)
        address = call.visit["address"]
        network = network_of(address)
        body = await self._arrivals.read(http, network)
        message = self._read(body, http.headers.get(SIGNATURE, ""), network)
        note_known(http)
        # Strangers get no further, so they can use up nothing of what follows.
        if self._under_way >= AT_ONCE:
            raise unavailable("Too many messages at once.")
        self._under_way += 1
        try:
            if message is not None:
                await self._cashier.settle(message, Actor(self._cashier.provider.name, address))
        finally:
            self._under_way -= 1

    def _read(self, body: bytes, signature: str, network: str) -> Payment | Reversal | None:
        """Read a message. Raises ConsoleError if it is not Stripe's, BadMessage if it is odd."""
        try:
            return self._cashier.provider.read_message(body, signature)
        except BadSignature as error:
            if wait_seconds := self._tries.take(network):
                raise too_many_tries(wait_seconds, "Too many wrong signatures.") from error
            raise ConsoleError(
                400,
                "bad_signature",
                "The signature is wrong, or older than five minutes. Compare webhook_secret with the"
                " endpoint's, and the machine's clock with the time.",
            ) from error


def _explain(request_id: str, error: Exception) -> ConsoleError:
    match error:
        case Refused():
            log.error("%s: a payment is not credited: %s", request_id, error)
            return ConsoleError(500, "not_credited", f"Not credited: {error}.")
        case ProviderUnavailable() | ProviderRefused():
            log.error("%s: a payment cannot be looked up: %s", request_id, error)
            return ConsoleError(500, "not_credited", "The payment cannot be looked up.")
        case BadMessage():
            log.error("%s: a message of Stripe's cannot be read: %s", request_id, error)
            return ConsoleError(400, "bad_message", f"The message cannot be read: {error}.")
        case _:
            return explain(request_id, error)
