"""Counts the tokens of a request: asks a provider, or estimates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Final

import orjson
from aiohttp import web
from multidict import MultiMapping

from gateway.api.admission import estimate_input, find_model, pick_headers
from gateway.api.bodies import parse, read_body, run_large
from gateway.api.front import KeyedCall
from gateway.api.lookups import reply_json
from gateway.api.routes import Endpoint
from gateway.base.deadlines import Ticker
from gateway.base.errors import GatewayError, OutOfResources, Overloaded, RateLimited, UpstreamError
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.fields import dump_request
from gateway.dialects.wire.records import CompletionRequest
from gateway.extension import Started
from gateway.extras.count_tokens.paths import CountPath, edit_count, find_counters
from gateway.upstream.attempt import Attempt, Forwarder
from gateway.upstream.receivers import CollectedBody
from gateway.upstream.routing import Route, order_routes

MAX_COUNTS: Final = 32
"""Counts in flight at once: each can hold a body, a provider's connection and a parse of some 10 ms."""
MAX_OWN_COUNTS: Final = 8
"""Counts in flight per account: an agent counts one conversation at a time."""
MAX_COUNT_BYTES: Final = 4 << 20
"""Bytes of a request to count tokens: more than the text of a million tokens. Counting is free."""
MAX_FETCHED_BYTES: Final = 1 << 20
"""Bytes of a reply that `fetch` returns: a count of tokens has a hundred."""
ESTIMATED_HEADER: Final = "x-gateway-estimated"
_UNABLE: Final = frozenset({404, 405, 501})
"""Statuses of providers that have no path to count tokens, as many imitations of Anthropic's API."""


class Counting:
    """Requests in flight that count tokens, by account id.

    They cost nothing, so neither balances nor rates limit them.
    """

    __slots__ = ("_in_flight",)

    def __init__(self) -> None:
        self._in_flight: Counter[int] = Counter()

    @contextmanager
    def admit(self, account_id: int) -> Iterator[None]:
        """Count a request while it is in flight. Raises RateLimited, Overloaded."""
        if self._in_flight[account_id] >= MAX_OWN_COUNTS:
            raise RateLimited(
                f"This account may count the tokens of {MAX_OWN_COUNTS} requests at once."
            )
        if self._in_flight.total() >= MAX_COUNTS:
            raise Overloaded("Too many requests to count tokens are in flight. Try again shortly.")
        self._in_flight[account_id] += 1
        try:
            yield
        finally:
            self._in_flight[account_id] -= 1
            # A Counter keeps zeros, so it would grow with every account that ever counted.
            if not self._in_flight[account_id]:
                del self._in_flight[account_id]


def start() -> Started:
    """Serve the paths."""
    counts = [
        Endpoint(
            "POST", f"/v1{one.path}", "free", partial(count_tokens, one), (one.exchange.caller,)
        )
        for one in find_counters()
    ]
    return Started(endpoints=counts, offers=(Counting(),))


def admit_count(call: KeyedCall) -> AbstractContextManager[None]:
    """Count a request while it is in flight. Raises RateLimited, Overloaded."""
    (counting,) = call.gateway.find_offers(Counting)
    return counting.admit(call.key.account.id)


async def count_tokens(counter: CountPath, http: web.Request, call: KeyedCall) -> web.Response:
    """Reply with the provider's count of a request's tokens.

    If no provider that can count serves the model, reply with an estimate.
    """
    with admit_count(call):
        caller = counter.exchange.caller
        request = await parse(call, caller, await read_body(http, call, MAX_COUNT_BYTES))
        return await count_request(counter, http, call, request)


async def count_request(
    counter: CountPath, http: web.Request, call: KeyedCall, request: CompletionRequest
) -> web.Response:
    """Reply with the count of a request that was read."""
    gateway, exchange = call.gateway, counter.exchange
    model = await find_model(call, request.model)
    call.model = model.id
    routes = [
        route
        for route in gateway.routes.by_model[exchange.caller.name, model.id]
        if route.provider.config.dialect in counter.exchanges
    ]
    if (reply := await _ask(call, counter, http.headers, routes, request)) is not None:
        return reply_json(reply)
    write = partial(dump_request, request.body)
    sent = await run_large(call, write) if request.is_large else write()
    count = orjson.dumps({**counter.frame, "input_tokens": estimate_input(request, len(sent))})
    return reply_json(count, {ESTIMATED_HEADER: "true"})


async def _ask(
    call: KeyedCall,
    counter: CountPath,
    headers: MultiMapping[str],
    routes: Sequence[Route],
    request: CompletionRequest,
) -> bytes | None:
    """Return the count of the first provider that gives one; None if no provider can count.

    Raises the error of the last provider that can. Failures do not count for the models' breakers.
    """
    gateway, failure = call.gateway, None
    for route in order_routes(routes):
        provider, target = route.provider, route.target
        exchange = counter.exchanges[provider.config.dialect]
        passed = pick_headers(headers, exchange.passed_headers)
        write = partial(exchange.write_request, request, target)
        payload = (await run_large(call, write) if request.is_large else write()).data
        try:
            with provider.visit(target.upstream_model):
                reply = await fetch(provider.forwarder, exchange, payload, passed, gateway.ticker)
            return edit_count(reply, request.model)
        except GatewayError as error:
            if isinstance(error, UpstreamError) and error.upstream_status in _UNABLE:
                continue
            route.report(error, call.note_failure)
            # A faulty request is faulty for every provider.
            if not isinstance(error, UpstreamError | OutOfResources):
                raise
            failure = error
    if failure is not None:
        raise failure
    return None


async def fetch(
    forwarder: Forwarder,
    exchange: Exchange,
    body: bytes,
    headers: Mapping[str, str],
    ticker: Ticker,
) -> bytes:
    """Send a request and return the whole body of the reply, within the provider's time-outs.

    Raises what `Forwarder.send` raises.
    """
    reply = CollectedBody(MAX_FETCHED_BYTES)
    attempt = Attempt(forwarder.provider, ticker.clock, exchange, body, lambda _: reply, headers)
    ticker.add(attempt)
    try:
        await forwarder.send(attempt)
    finally:
        ticker.remove(attempt)
    return reply.take()
