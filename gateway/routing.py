"""Which providers serve a model, in which order, and what makes the next one worth a try."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeVar

from gateway.breaker import Breaker, BreakerState
from gateway.config import Model, Provider, Route
from gateway.dialects.base import Exchange, Target
from gateway.errors import BadRequest, UpstreamError, UpstreamUnavailable
from gateway.forwarder import Forwarder

log = logging.getLogger("gateway.routing")

T = TypeVar("T")


class Lane:
    """A provider's forwarder, what is under way there, and whether it is fit to be tried."""

    __slots__ = ("_breaker", "_rests_until", "forwarder", "in_flight")

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.in_flight = 0
        self._breaker = Breaker()
        self._rests_until: dict[str, float] = {}
        """By upstream model, where the provider asked for a pause."""

    @property
    def provider(self) -> Provider:
        return self.forwarder.provider

    def tell_breaker(self) -> tuple[BreakerState, int]:
        """How the provider's breaker stands, and the seconds until it will be tried again."""
        return self._breaker.tell(time.monotonic())

    def enter(self, upstream_model: str) -> bool:
        """Count one request in; whether it is the breaker's probe.

        Raises UpstreamUnavailable when the provider is not to be tried.
        """
        self._check_fitness(upstream_model)
        self.in_flight += 1
        return self._breaker.begin()

    def leave(self, error: BaseException | None, *, probing: bool) -> None:
        """The request counted in is over, and so it ended: the breaker takes note."""
        self.in_flight -= 1
        if isinstance(error, UpstreamError):
            if error.blames_provider:
                self.note_failure()
        elif error is None or isinstance(error, BadRequest):
            self.note_success()  # a refusal in earnest is an answer too
        if probing:
            self._breaker.forget()

    def rest(self, upstream_model: str, seconds: float) -> None:
        """The provider said Retry-After: leave this model alone so long."""
        self._rests_until[upstream_model] = time.monotonic() + seconds

    def note_failure(self) -> None:
        if self._breaker.fail(time.monotonic()):
            log.error("provider %s failed repeatedly: off for a while", self.provider.name)

    def note_success(self) -> None:
        if self._breaker.succeed():
            log.warning("provider %s is back", self.provider.name)

    def _check_fitness(self, upstream_model: str) -> None:
        now = time.monotonic()
        rest = self._rests_until.get(upstream_model, 0.0) - now
        wait = self._breaker.wait_seconds(now)
        if wait > 0 or rest > 0:
            raise UpstreamUnavailable(
                "The upstream provider is being left alone a while: it failed repeatedly, or asked "
                "for a pause.",
                retry_after_seconds=max(wait, rest),
                next_route=True,
                blames_provider=False,
            )
        most = self.provider.max_concurrency
        if most and self.in_flight >= most:
            raise UpstreamUnavailable(
                "The upstream provider has as many requests as it may at once.",
                next_route=True,
                blames_provider=False,
            )


@dataclass(frozen=True, slots=True)
class Candidate:
    """One route of a model: where to, under which name, through which exchange."""

    lane: Lane
    exchange: Exchange
    target: Target


class Routes:
    """The models that can be served, each with its candidates."""

    __slots__ = ("_candidates", "_lanes", "_models")

    def __init__(
        self,
        models: Mapping[str, Model],
        lanes: Mapping[str, Lane],
        exchanges: Mapping[str, Mapping[str, Exchange]],
    ) -> None:
        """`exchanges` is by the caller's dialect, then by the provider's."""
        self._models = dict(models)
        self._lanes = dict(lanes)
        self._candidates = {
            (dialect, model.id): self._line_up(model, by_provider)
            for dialect, by_provider in exchanges.items()
            for model in models.values()
        }

    @property
    def models(self) -> Mapping[str, Model]:
        return self._models

    @property
    def lanes(self) -> Mapping[str, Lane]:
        """By provider: those that are on and that some model needs."""
        return self._lanes

    def find_candidates(self, dialect: str, model: Model) -> tuple[Candidate, ...]:
        """The model's routes, in order, for callers of a dialect; empty when none can serve them."""
        return self._candidates[dialect, model.id]

    def _line_up(self, model: Model, exchanges: Mapping[str, Exchange]) -> tuple[Candidate, ...]:
        return tuple(
            Candidate(
                lane,
                exchanges[lane.provider.dialect],
                make_target(model, route, lane.provider),
            )
            for route in model.routes
            if (lane := self._lanes[route.provider]).provider.dialect in exchanges
        )

    def close(self) -> None:
        for lane in self._lanes.values():
            lane.forwarder.close()


def make_target(model: Model, route: Route, provider: Provider) -> Target:
    likely: Literal["effort", "none"] = "effort" if provider.dialect == "messages" else "none"
    return Target(
        upstream_model=route.upstream_model,
        ask_usage=provider.stream_usage,
        max_output_tokens=model.max_output_tokens,
        reasoning=model.reasoning or likely,
        max_tokens_field=provider.max_tokens_field,
    )


async def _try_route(candidate: Candidate, attempt: Callable[[Candidate], Awaitable[T]]) -> T:
    lane = candidate.lane
    upstream_model = candidate.target.upstream_model
    probing = lane.enter(upstream_model)
    try:
        result = await attempt(candidate)
    except BaseException as error:
        lane.leave(error, probing=probing)
        if isinstance(error, UpstreamError) and error.rest_seconds:
            lane.rest(upstream_model, error.rest_seconds)
        raise
    lane.leave(None, probing=probing)
    return result


async def try_routes(
    candidates: Sequence[Candidate], attempt: Callable[[Candidate], Awaitable[T]]
) -> T:
    """The first route that works out; the next is tried only where nothing can have been done.

    Raises what the last route tried raised.
    """
    last = len(candidates) - 1
    for position, candidate in enumerate(candidates):
        try:
            return await _try_route(candidate, attempt)
        except UpstreamError as error:
            candidate.lane.forwarder.redact(error)
            if error.alarm:
                log.error("provider %s: %s", candidate.lane.provider.name, error.alarm)  # noqa: TRY400 - no trace wanted
            if position == last or not error.next_route:
                raise
    raise AssertionError("a model has at least one route")
