"""The admission of a completion: find the model, choose the routes that can carry it, take the hold.

The expected usage is estimated from the payload, and bounded by what a report can plausibly state.
"""

from __future__ import annotations

import heapq
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Final

from aiohttp import web
from multidict import MultiMapping

from gateway.api.billing import Bill, open_bill
from gateway.api.bodies import run_large
from gateway.api.front import KeyedCall
from gateway.api.keys import catch_up, check_standing
from gateway.api.state import Gateway
from gateway.base import errors, usage
from gateway.config.records import Model
from gateway.dialects.wire.records import (
    DEFAULT_KIND,
    Body,
    CompletionRequest,
    Payload,
    Reply,
    ReplyContext,
)
from gateway.extension import find_formats
from gateway.ledger.base import Key
from gateway.upstream.routing import Route

AFFINITY_CHARS: Final = 256
"""Characters of a conversation's name (`prompt_cache_key`) that count. Each key of the provider is
hashed with the name on the event loop, and a caller may send a name of many MiB."""


@dataclass(slots=True)
class Prepared:
    """The request as it is sent to one route."""

    data: Body
    context: ReplyContext


@dataclass(slots=True)
class Completion:
    """One admitted request and everything that serving it needs."""

    call: KeyedCall
    request: CompletionRequest
    model: Model
    routes: Sequence[Route]
    """The routes, in order; the first can carry the request."""
    first: Prepared
    """The request as written for the first route; usually no other is sent."""
    headers: MultiMapping[str]
    """The caller's headers that go upstream."""
    bill: Bill
    edit: Callable[[Reply], None] | None = None
    """Set by an extra: rewrites a JSON reply, or gives it a failure, before it is charged."""
    keep: Callable[[bytes], Awaitable[None]] | None = None
    """Set by an extra: called with the whole reply, or with a stream's last event, once its charge is
    committed or queued."""

    def find_affinity(self) -> str:
        """Cache-affinity key: the caller's conversation id, or else the id of its key."""
        named = self.request.body.get("prompt_cache_key")
        return named[:AFFINITY_CHARS] if isinstance(named, str) and named else self.call.key.id

    async def prepare(self, route: Route) -> Prepared:
        """Write the request for a route other than the first.

        Raises UpstreamUnavailable if the route cannot carry the request.
        """
        write = partial(_choose_writable, self.call, self.request, self.model, (route,))
        try:
            _, first = await run_large(self.call, write) if self.request.is_large else write()
        except errors.BadRequest as error:
            raise errors.UpstreamUnavailable(
                "The upstream provider is not available, and another cannot take this request.",
                next_route=True,
                cause="not tried: it cannot take the request",
            ) from error
        return first


async def admit(http: web.Request, call: KeyedCall, request: CompletionRequest) -> Completion:
    """Check that a request can be sent, and take its hold.

    Raises InvalidKey, AccountSuspended, UnknownModel, ModelNotAllowed, BadRequest, and what
    `open_bill` raises.
    """
    gateway, dialect = call.gateway, call.dialect
    call.stream = request.stream
    model = await find_model(call, request.model, dialect.kind)
    call.model = model.id
    if request.upload is not None:
        request.upload.add_to(request, model.unit)
    routes: Sequence[Route] = gateway.routes.by_model[dialect.name, model.id]
    if not routes:
        raise errors.UnknownModel(request.model)
    choose = partial(_choose_writable, call, request, model, routes)
    routes, first = await run_large(call, choose) if request.is_large else choose()
    # The hold's row names a provider. The charge's row names the one that served.
    call.provider = routes[0].provider.name
    # The key is checked again: the body may have taken minutes to arrive.
    now_ms = gateway.ledger.clock() if call.waited_seconds else call.started_ms
    check_standing(call.key, now_ms)
    bill = open_bill(call, request, model, first.context.expected)
    return Completion(call, request, model, routes, first, http.headers, bill)


async def find_model(call: KeyedCall, model_id: str, kind: str = DEFAULT_KIND) -> Model:
    """Find the model that a request names. Raises UnknownModel, ModelNotAllowed, BadRequest."""
    gateway, key = call.gateway, call.key
    model = gateway.routes.find_model(model_id)
    if model is not None and model.kind == kind and key.allows(model.id):
        return model
    call.asked_model = errors.name_model(model_id)
    if model is not None and not key.allows(model.id):
        # An operator may have just allowed this key to use the model.
        await catch_up(gateway.ledger)
        # Looked up again after the wait: model and routes must come from the same configuration.
        model = gateway.routes.find_model(model_id)
        if model is not None and not key.allows(model.id):
            raise errors.ModelNotAllowed(model.id)
    if model is None:
        raise errors.UnknownModel(model_id, find_problem(gateway, key, model_id))
    if model.kind != kind:
        raise _refuse_kind(model)
    return model


def _refuse_kind(model: Model) -> errors.BadRequest:
    fit = (one for one in find_formats().every_caller if one.kind == model.kind)
    paths = " or ".join(f"/v1{caller.path}" for caller in fit)
    return errors.BadRequest(
        f"The model '{model.id}' is served at {paths} alone.",
        param="model",
        code="unsupported_value",
    )


def pick_headers(headers: MultiMapping[str], names: Iterable[str]) -> dict[str, str]:
    """Select the caller's headers that go upstream; repeated lines are joined (RFC 9110 §5.3)."""
    picked = {}
    for name in names:
        if value := ", ".join(filter(None, headers.getall(name, ()))):
            picked[name] = value
    return picked


def _choose_writable(
    call: KeyedCall, request: CompletionRequest, model: Model, routes: Sequence[Route]
) -> tuple[Sequence[Route], Prepared]:
    """Return the routes from the first that can carry the request on, and the request written for it.

    If no route can, raises the BadRequest of the first route.
    """
    refusal: errors.BadRequest | None = None
    for position, route in enumerate(routes):
        try:
            payload = route.exchange.write_request(request, route.target)
            expected = expect_usage(request, payload, model)
            upload = request.upload
            data = payload.data if upload is None else upload.pack(payload.data)
        except errors.BadRequest as error:
            refusal = refusal or error
            continue
        context = ReplyContext(
            request,
            call.request_id,
            expected,
            call.started_ms // 1000,
            route.target.provider_tag,
            payload.effort_sent,
        )
        return routes[position:], Prepared(data, context)
    assert refusal is not None
    raise refusal


def expect_usage(request: CompletionRequest, payload: Payload, model: Model) -> usage.Expected:
    """Estimate the input from the payload, and bound the usage that a report can plausibly state."""
    options, requested, most = payload.options, request.max_tokens, model.max_output_tokens
    limit = requested if requested and requested < most else most
    if options.tool_calls:
        # Tools without a price are free, whether the provider reports them or not.
        priced = {k: n for k, n in options.tool_calls.items() if model.prices.base.has_tool(k)}
        options = replace(options, tool_calls=priced)
    most_input = model.max_input_tokens * (request.inputs.count if request.inputs else 1)
    likely_input = min(estimate_input(request, len(payload.data)), most_input)
    # What the provider's tools find is input, too.
    is_added = options.adds_input or (payload.options.tool_calls and request.inputs is None)
    more = usage.UNBOUNDED if is_added else request.more_tokens
    return usage.Expected(
        input_tokens=likely_input,
        limits=_bound_usage(most_input, most, limit, request.n),
        options=options,
        audio_tokens=request.audio_tokens,
        most_input_tokens=min(likely_input + more, most_input) if more else 0,
    )


@lru_cache(maxsize=1024)
def _bound_usage(most_input: int, most_output: int, limit: int, n: int) -> usage.UsageLimits:
    """Bound the usage of `n` choices. Cached, as the same few models and limits recur."""
    return usage.UsageLimits(
        input=min(usage.IMPLAUSIBLE_FACTOR * most_input, usage.MAX_PLAUSIBLE_TOKENS),
        output=min(usage.IMPLAUSIBLE_FACTOR * most_output * n, usage.MAX_PLAUSIBLE_TOKENS),
        estimated_output=limit * n,
    )


def estimate_input(request: CompletionRequest, sent_bytes: int) -> int:
    """Estimate the input tokens: everything that is sent is text, but for the content of files.

    Only the inputs count for a request that is not a conversation.
    """
    if request.inputs is not None:
        return request.inputs.tokens
    text_bytes = sent_bytes - request.base64_chars
    return request.file_tokens + (usage.estimate_tokens(text_bytes) if text_bytes > 0 else 0)


MAX_COMPARED_CHARS: Final = 100
"""Names longer than this get no suggestion: comparing texts takes time quadratic in their length."""
MAX_COMPARED: Final = 16
"""Names that are compared in full: those that share the most letters with the requested name."""


def find_problem(gateway: Gateway, key: Key, name: str) -> str:
    """Return why the gateway does not serve the model, as far as this key may know."""
    models = gateway.routes.models
    for one in gateway.config.models.values():
        if name in (one.id, *one.aliases) and one.id not in models and key.allows(one.id):
            return "is switched off here; the operator can say why."
    known = [id_ for id_ in models if key.allows(id_)] if len(name) <= MAX_COMPARED_CHARS else []
    similar = find_similar(name, known)
    return f"does not exist here; did you mean '{similar}'?" if similar else "does not exist here."


def find_similar(name: str, known: list[str], like: float = 0.6) -> str | None:
    """Return the known name that is most similar; None if no similarity reaches `like`."""
    import difflib  # 0.2 MiB, for errors only

    wanted = name.lower()
    letters = set(wanted)
    nearest = heapq.nsmallest(
        MAX_COMPARED,
        (one for one in known if len(one) <= MAX_COMPARED_CHARS),
        key=lambda one: len(letters.symmetric_difference(one.lower())),
    )
    by_text = {one.lower(): one for one in nearest}
    return next((by_text[one] for one in difflib.get_close_matches(wanted, by_text, 1, like)), None)
