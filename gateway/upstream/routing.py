"""Routes: the providers that serve a model, their order, and when the next one is tried."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from gateway.base import errors
from gateway.config.records import Model, Provider, Route
from gateway.dialects.exchanges import Exchange
from gateway.dialects.formats import Exchanges
from gateway.dialects.wire.records import Target
from gateway.dialects.wire.seals import tag_provider
from gateway.upstream.providers import ProviderState

log = logging.getLogger("gateway.routing")

T = TypeVar("T")
NoteFailure = Callable[[str, str], None]
"""Called with a failed route, as written in gateway.toml, and the cause."""


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

    __slots__ = ("_aliases", "_candidates", "models", "providers")

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
        self._candidates = {
            (dialect, model.id): self._line_up(model, by_provider)
            for dialect, by_provider in exchanges.items()
            for model in models.values()
        }

    def find_model(self, name: str) -> Model | None:
        """Return the model with an id or alias, also if a date or `-latest` follows it."""
        model = self.models.get(name) or self._aliases.get(name)
        if model is None and (dated := DATED.fullmatch(name)):
            model = self.models.get(dated[1]) or self._aliases.get(dated[1])
        return model

    def find_candidates(self, dialect: str, model: Model) -> tuple[Candidate, ...]:
        """Return the model's routes, in order, for callers of a dialect; empty when none can serve them."""
        return self._candidates[dialect, model.id]

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
    model: Model, route: Route, provider: ProviderState, exchange: Exchange
) -> Candidate:
    find_path = partial(exchange.upstream.find_path, route.upstream_model)
    target = make_target(model, route, provider.config, exchange)
    paths = find_path(stream=False), find_path(stream=True)
    passed = (*exchange.passed_headers, *provider.config.pass_headers)
    return Candidate(model.id, provider, exchange, target, paths, passed)


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
        unit=model.unit,
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
