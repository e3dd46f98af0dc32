"""Routes: the providers that serve a model, their order, and when the next one is tried."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gateway.config.records import Model, Provider, Route
from gateway.dialects.exchanges import Exchange, Exchanges
from gateway.dialects.records import Target
from gateway.dialects.wire.seals import tag_provider
from gateway.errors import GatewayError
from gateway.upstream.forwarder import rename
from gateway.upstream.provider_state import ProviderState

log = logging.getLogger("gateway.routing")

T = TypeVar("T")
NoteFailure = Callable[[str, str], None]
"""Gets the route that failed, as written in gateway.toml, and the cause."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One route of a model, ready to be tried."""

    model_id: str
    provider: ProviderState
    exchange: Exchange
    target: Target

    def note_alive(self) -> None:
        """Tell the breakers that the reply has begun."""
        self.provider.note_alive(self.target.upstream_model)

    def report(self, error: GatewayError, note_failure: NoteFailure) -> None:
        """Take the provider's key and its name of the model out of an error, and log it."""
        upstream_model = self.target.upstream_model
        self.provider.report(error)
        rename(error, upstream_model, self.model_id)
        if error.cause:
            note_failure(f"{self.provider.name}/{upstream_model}", error.cause)


class Routes:
    """The models that can be served, each with its candidates."""

    __slots__ = ("_candidates", "models", "providers")

    def __init__(
        self,
        models: Mapping[str, Model],
        providers: Mapping[str, ProviderState],
        exchanges: Exchanges,
    ) -> None:
        self.models = models
        self.providers = providers
        """By name: the providers that are on and that some model needs."""
        self._candidates = {
            (dialect, model.id): self._line_up(model, by_provider)
            for dialect, by_provider in exchanges.items()
            for model in models.values()
        }

    def find_candidates(self, dialect: str, model: Model) -> tuple[Candidate, ...]:
        """Return the model's routes, in order, for callers of a dialect; empty when none can serve them."""
        return self._candidates[dialect, model.id]

    def close(self, *, but: Routes | None = None) -> None:
        """Close the providers, but those that other routes use too."""
        kept = () if but is None else but.providers.values()
        for provider in self.providers.values():
            if provider not in kept:
                provider.forwarder.close()

    def _line_up(self, model: Model, exchanges: Mapping[str, Exchange]) -> tuple[Candidate, ...]:
        routes = ((route, self.providers[route.provider]) for route in model.routes)
        return tuple(
            Candidate(
                model.id,
                provider,
                exchanges[provider.config.dialect],
                make_target(model, route, provider.config, exchanges[provider.config.dialect]),
            )
            for route, provider in routes
            if provider.config.dialect in exchanges
        )


def make_target(model: Model, route: Route, provider: Provider, exchange: Exchange) -> Target:
    return Target(
        upstream_model=route.upstream_model,
        ask_usage=provider.stream_usage,
        max_output_tokens=model.max_output_tokens,
        reasoning=model.reasoning or exchange.upstream.default_reasoning,
        max_tokens_field=provider.max_tokens_field,
        leading_system=provider.leading_system,
        embeddings_base64=provider.embeddings_base64,
        takes=provider.takes,
        history=provider.history,
        leave_out=model.leave_out,
        prices=model.prices,
        allow=model.allow,
        provider_tag=tag_provider(provider.name, provider.base_url),
    )


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
            provider.enter(upstream_model)
            try:
                result = await attempt(candidate)
            except BaseException as error:
                provider.leave(upstream_model, error)
                raise
            provider.leave(upstream_model, None)
        except GatewayError as error:
            candidate.report(error, note_failure)
            if candidate is candidates[-1] or not error.next_route:
                raise
        else:
            return result
    raise AssertionError("a model has at least one route")


def order_routes(candidates: Sequence[Candidate]) -> Sequence[Candidate]:
    """Move routes with an open breaker, or in a pause that the provider asked for, to the end.

    So the only route that is left is always tried.
    """
    return sorted(candidates, key=_comes_last)


def _comes_last(candidate: Candidate) -> bool:
    provider, upstream_model = candidate.provider, candidate.target.upstream_model
    return provider.is_open(upstream_model) or provider.is_resting(upstream_model)
