"""Routes: the providers that serve a model, how these are, their order, and when the next one is tried."""

from __future__ import annotations

import logging
import math
import re
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from gateway.base import errors
from gateway.config.records import Model, Provider, Route
from gateway.dialects.exchanges import Exchange
from gateway.dialects.formats import Exchanges
from gateway.dialects.wire.records import Target
from gateway.dialects.wire.seals import tag_provider
from gateway.upstream.attempt import Forwarder
from gateway.upstream.breaker import UNBROKEN, Breaker, BreakerState
from gateway.upstream.keys import ProviderKey

log = logging.getLogger("gateway.routing")
state_log = logging.getLogger("gateway.providers")

T = TypeVar("T")
NoteFailure = Callable[[str, str], None]
"""Called with a failed route, as written in gateway.toml, and the cause."""
WHOLE: Final = ""
"""Stands for a provider as a whole where its models have breakers."""


@dataclass(slots=True)
class Load:
    """The requests in flight to one provider, under all its settings since the start."""

    in_flight: int = 0


class ProviderState:
    """A provider at run time: its forwarder, its requests in flight, its breakers, the pauses it asked for."""

    __slots__ = ("_breakers", "_load", "_rests_until", "config", "forwarder", "name")

    def __init__(self, forwarder: Forwarder, before: ProviderState | None = None) -> None:
        """`before`: the same provider with its previous settings, which may have requests in flight."""
        self.forwarder = forwarder
        self.config: Provider = forwarder.provider
        self.name = self.config.name
        # Requests by the old settings are still in flight, and `max_concurrency` holds for all of them.
        self._load: Load = Load() if before is None else before._load  # noqa: SLF001 - of this class
        self._breakers: dict[str, Breaker] = {}
        """Breakers of what failed: of `WHOLE`, and by upstream model, as one says nothing about another."""
        self._rests_until: dict[str, float] = {}
        """The ends of pauses that the provider asked for, by upstream model."""

    @property
    def in_flight(self) -> int:
        return self._load.in_flight

    def describe_breaker(self) -> tuple[BreakerState, int]:
        """Return the state of the provider's breaker and the whole seconds until the next try."""
        return self._breakers.get(WHOLE, UNBROKEN).describe(time.monotonic())

    def list_troubled(self) -> list[tuple[str, BreakerState, int, int]]:
        """Return the models that have an open breaker or rest: name, state, seconds of breaker and rest."""
        now = time.monotonic()
        troubled = []
        for model in sorted({*self._breakers, *self._rests_until} - {WHOLE}):
            state, seconds = self._breakers.get(model, UNBROKEN).describe(now)
            rest = math.ceil(max(self._rests_until.get(model, 0.0) - now, 0.0))
            if state != "closed" or rest:
                troubled.append((model, state, seconds, rest))
        return troubled

    @property
    def keys(self) -> Sequence[ProviderKey]:
        return self.forwarder.keys

    def comes_last(self, upstream_model: str) -> bool:
        """Return whether a breaker is open, or a pause that the provider asked for is not over."""
        now, breakers = time.monotonic(), self._list_breakers(upstream_model)
        is_open = any(one.wait_seconds(now) > 0 for one in breakers)
        return is_open or self._rests_until.get(upstream_model, 0.0) > now

    def enter(self, upstream_model: str) -> Sequence[Breaker]:
        """Count a request that begins; return the breakers whose probe it is, usually none.

        Raises UpstreamUnavailable at `max_concurrency`.
        """
        if self.config.max_concurrency:
            self._check_room()
        self._load.in_flight += 1
        if not self._breakers:
            return ()
        return [one for one in self._list_breakers(upstream_model) if one.begin()]

    def leave(
        self, upstream_model: str, error: BaseException | None, probed: Sequence[Breaker] = ()
    ) -> None:
        """Count a request that ends; the breakers note how it ended. `probed` is what `enter` returned."""
        self._load.in_flight -= 1
        if error is None or isinstance(error, errors.BadRequest):
            # The breaker judges reachability and health, not what callers ask.
            if self._breakers:  # as `note_alive` asks, too: this saves each good request a call
                self.note_alive(upstream_model)  # refusing a bad request is an answer, too
            return
        # A caller that leaves, or a shutdown, says nothing about the provider: another probe may be sent.
        for breaker in probed:
            breaker.forget()
        if isinstance(error, errors.UpstreamError):
            if error.blame != "nobody":
                self._note_failure(upstream_model, error.blame)
            # A rest may come without a failure: a provider that limits the rate (429) works.
            if seconds := error.rest_seconds:
                self._rests_until[upstream_model] = time.monotonic() + seconds
                text = "provider %s: asks for a pause of %.0f s for model %s"
                state_log.warning(text, self.name, seconds, upstream_model)

    @contextmanager
    def visit(self, upstream_model: str) -> Iterator[None]:
        """Count a request in flight whose failure concerns the whole provider, not one model.

        Raises UpstreamUnavailable at `max_concurrency`.
        """
        self._check_room()
        self._load.in_flight += 1
        try:
            yield
        except errors.UpstreamError as error:
            if error.blame == "provider":
                self._note_failure(upstream_model, error.blame)
            raise
        finally:
            self._load.in_flight -= 1

    def note_alive(self, upstream_model: str) -> None:
        """Note that the provider works: a reply has begun."""
        if not self._breakers:
            return
        if self._breakers.pop(WHOLE, UNBROKEN).is_open:
            state_log.warning("provider %s answers again", self.name)
        if self._breakers.pop(upstream_model, UNBROKEN).is_open:
            state_log.warning("provider %s: model %s answers again", self.name, upstream_model)

    def _list_breakers(self, upstream_model: str) -> list[Breaker]:
        """Return the breakers that concern a model; usually there are none."""
        return [self._breakers[one] for one in (WHOLE, upstream_model) if one in self._breakers]

    def _note_failure(self, upstream_model: str, blame: errors.Blame) -> None:
        failed = WHOLE if blame == "provider" else upstream_model
        breaker = self._breakers.setdefault(failed, Breaker())
        if not breaker.fail(time.monotonic(), at_once=blame == "reply"):
            return
        if failed is WHOLE:
            state_log.error("provider %s cannot be reached: its routes come last", self.name)
        else:
            text = "provider %s: model %s failed repeatedly: its routes come last"
            state_log.error(text, self.name, upstream_model)

    def _check_room(self) -> None:
        most = self.config.max_concurrency
        if most and self._load.in_flight >= most:
            raise errors.UpstreamUnavailable(
                "The upstream provider has as many requests as it may at once.",
                next_route=True,
                cause="not tried: max_concurrency",
            )


@dataclass(frozen=True, slots=True)
class Candidate:
    """One route of a model, ready to be tried."""

    model_id: str
    provider: ProviderState
    exchange: Exchange
    target: Target
    paths: tuple[str, str] = ("", "")
    """The paths of a request for JSON and for a stream, if they depend on the model."""
    passed_headers: tuple[str, ...] = ()
    """The caller's headers that go on to the provider, in lower case."""

    def report(self, error: errors.GatewayError, note_failure: NoteFailure) -> None:
        """Remove the provider's key and its name of the model from an error, and log the error."""
        provider, upstream_model = self.provider, self.target.upstream_model
        provider.forwarder.redact(error)
        if isinstance(error, errors.UpstreamError) and error.alarm:
            log.error("provider %s: %s", provider.name, error.alarm)
        errors.rename_model(error, upstream_model, self.model_id)
        if error.cause:
            note_failure(f"{provider.name}/{upstream_model}", error.cause)


DATED: Final = re.compile(r"(.+)-(?:\d{8}|\d{4}-\d{2}-\d{2}|latest)")
"""A name by which vendors call one version of a model."""


class Routes:
    """The models that can be served, each with its candidates."""

    __slots__ = ("_aliases", "candidates", "models", "providers")

    def __init__(
        self,
        models: Mapping[str, Model],
        providers: Mapping[str, ProviderState],
        exchanges: Exchanges,
    ) -> None:
        self.models = models
        self.providers = providers
        """The providers that are on and that some model needs, by name."""
        self._aliases = {alias: model for model in models.values() for alias in model.aliases}
        self.candidates = {
            (dialect, model.id): self._line_up(model, by_provider)
            for dialect, by_provider in exchanges.items()
            for model in models.values()
        }
        """By a caller's dialect and a model: its routes, in order; empty when none can serve them."""

    def find_model(self, name: str) -> Model | None:
        """Return the model with an id or alias, also if a date or `-latest` follows it."""
        model = self.models.get(name) or self._aliases.get(name)
        if model is None and (dated := DATED.fullmatch(name)):
            model = self.models.get(dated[1]) or self._aliases.get(dated[1])
        return model

    def close(self, *, but: Routes | None = None) -> None:
        """Close the providers except those that other routes use, too."""
        kept = () if but is None else but.providers.values()
        for provider in self.providers.values():
            if provider not in kept:
                provider.forwarder.close()

    def _line_up(self, model: Model, exchanges: Mapping[str, Exchange]) -> tuple[Candidate, ...]:
        routes = ((route, self.providers[route.provider]) for route in model.routes)
        return tuple(
            make_candidate(model, route, provider, exchanges[provider.config.dialect])
            for route, provider in routes
            if provider.config.dialect in exchanges
        )


def make_candidate(
    model: Model, route: Route, state: ProviderState, exchange: Exchange
) -> Candidate:
    upstream, provider = exchange.upstream, state.config
    target = Target(
        upstream_model=route.upstream_model,
        ask_usage=provider.stream_usage,
        max_output_tokens=model.max_output_tokens,
        reasoning=model.reasoning or upstream.default_reasoning,
        max_tokens_field=provider.max_tokens_field,
        leading_system=provider.leading_system,
        embeddings_base64=provider.embeddings_base64,
        takes=provider.takes,
        history=provider.history,
        leave_out=model.leave_out,
        prices=model.prices,
        allow=model.allow,
        unit=model.unit,
        provider_tag=tag_provider(provider.name, provider.base_url),
    )
    find_path = partial(upstream.find_path, route.upstream_model)
    paths = find_path(stream=False), find_path(stream=True)
    passed = (*exchange.passed_headers, *provider.pass_headers)
    return Candidate(model.id, state, exchange, target, paths, passed)


async def try_routes(
    candidates: Sequence[Candidate],
    attempt: Callable[[Candidate], Awaitable[T]],
    note_failure: NoteFailure,
) -> T:
    """Return what `attempt` returns for the first route that works.

    The next route is tried only after a failure which proves that no work was done
    (`GatewayError.next_route`). Raises what the last attempt raised.
    """
    if len(candidates) > 1:
        candidates = order_routes(candidates)
    for candidate in candidates:
        provider, upstream_model = candidate.provider, candidate.target.upstream_model
        try:
            probed = provider.enter(upstream_model)
            try:
                result = await attempt(candidate)
            # A cancelled request must give back its place and the breaker's probe, too.
            except BaseException as error:
                provider.leave(upstream_model, error, probed)
                raise
            provider.leave(upstream_model, None)
        except errors.GatewayError as error:
            candidate.report(error, note_failure)
            # Once a provider may have begun, another route could charge the caller twice for one request.
            if candidate is candidates[-1] or not error.next_route:
                raise
        else:
            return result
    raise AssertionError("a model has at least one route")


def order_routes(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Move routes to the end that have an open breaker or rest because the provider asked for it.

    So the last remaining route is always tried.
    """
    # `sorted` is stable: within each group the order of gateway.toml stays.
    return sorted(candidates, key=lambda one: one.provider.comes_last(one.target.upstream_model))
