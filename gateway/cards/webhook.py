"""`POST /webhooks/stripe`, by which Stripe tells what was paid; adds all of cards to the application.

The webhook has no session, no cookie and no rule of origins: the signature is all that counts, and it
is checked first. The reply leaves only once what was told is committed. Whatever cannot be credited is
answered by 5xx, so that Stripe tells it again and the operator sees it there.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from functools import partial
from typing import Final

from aiohttp import hdrs, web

from gateway.api.front import make_front
from gateway.api.state import Call, Gateway
from gateway.cards.cashier import BadSignature, Cashier, ProviderRefused, ProviderUnavailable
from gateway.cards.stripe import Stripe
from gateway.config.records import Cards
from gateway.console.dispatch import identify, read_bytes, refuse_method, render_error
from gateway.console.fields import ConsoleError, explain, too_many_tries, unavailable
from gateway.console.state import BooksThread
from gateway.console.throttle import ADDRESS_SECONDS, ADDRESS_TRIES, Tries, network_of
from gateway.errors import RESTARTING, drop_frames
from gateway.ledger.records import Actor, Refused
from gateway.tasks import spawn

log = logging.getLogger("gateway.cards")

PATH: Final = "/webhooks/stripe"
SIGNATURE: Final = "Stripe-Signature"
MAX_BODY_BYTES: Final = 256 * 1024
"""Bytes of a message: a session or a charge has some thousand."""
AT_ONCE: Final = 100
"""Messages handled at once, 25 MiB in all. Stripe sends the others again."""


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
