"""Which providers serve a model, in which order, and what makes the next one worth a try."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from gateway.config import Model, Provider
from gateway.dialects.base import Exchange
from gateway.errors import UpstreamError, UpstreamUnavailable
from gateway.forwarder import Forwarder

log = logging.getLogger("gateway.routing")

T = TypeVar("T")


class Lane:
    """A provider's forwarder and what is under way there."""

    __slots__ = ("forwarder", "in_flight")

    def __init__(self, forwarder: Forwarder) -> None:
        self.forwarder = forwarder
        self.in_flight = 0

    @property
    def provider(self) -> Provider:
        return self.forwarder.provider

    @contextmanager
    def occupy(self) -> Iterator[None]:
        """Count one request in for its whole time there. Raises UpstreamUnavailable when full."""
        most = self.provider.max_concurrency
        if most and self.in_flight >= most:
            raise UpstreamUnavailable(
                "The upstream provider has as many requests as it may at once.", next_route=True
            )
        self.in_flight += 1
        try:
            yield
        finally:
            self.in_flight -= 1


@dataclass(frozen=True, slots=True)
class Candidate:
    """One route of a model: where to, under which name, through which exchange."""

    lane: Lane
    upstream_model: str
    exchange: Exchange


class Routes:
    """The models that can be served, each with its candidates."""

    __slots__ = ("_lanes", "_models")

    def __init__(self, models: Mapping[str, Model], lanes: Mapping[str, Lane]) -> None:
        self._models = dict(models)
        self._lanes = dict(lanes)

    @property
    def models(self) -> Mapping[str, Model]:
        return self._models

    def find_candidates(
        self, model: Model, exchanges: Mapping[str, Exchange]
    ) -> tuple[Candidate, ...]:
        """The model's routes in order; `exchanges` is the caller's, by upstream dialect."""
        return tuple(
            Candidate(lane, route.upstream_model, exchanges[lane.provider.dialect])
            for route in model.routes
            if (lane := self._lanes[route.provider]).provider.dialect in exchanges
        )

    async def close(self) -> None:
        for lane in self._lanes.values():
            await lane.forwarder.close()


async def try_routes(
    candidates: Sequence[Candidate], attempt: Callable[[Candidate], Awaitable[T]]
) -> T:
    """The first route that works out; the next is tried only where nothing can have been done.

    Raises what the last route tried raised.
    """
    last = len(candidates) - 1
    for position, candidate in enumerate(candidates):
        try:
            with candidate.lane.occupy():
                return await attempt(candidate)
        except UpstreamError as error:
            candidate.lane.forwarder.redact(error)
            if error.alarm:
                log.error("provider %s: %s", candidate.lane.provider.name, error.alarm)  # noqa: TRY400 - no trace wanted
            if position == last or not error.next_route:
                raise
    raise AssertionError("a model has at least one route")
