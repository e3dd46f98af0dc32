"""Routes: the providers that serve a model, their order, and when the next one is tried."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from gateway.base import errors
from gateway.config.records import Model
from gateway.dialects.exchanges import Exchange
from gateway.dialects.formats import Exchanges
from gateway.dialects.wire.records import Target
from gateway.dialects.wire.seals import tag_provider
from gateway.upstream.provider import ProviderState

log = logging.getLogger("gateway.routing")

T = TypeVar("T")
NoteFailure = Callable[[str, str], None]
"""Called with a failed route, as written in gateway.toml, and the cause."""


@dataclass(frozen=True, slots=True)
class Route:
    """A route of gateway.toml, ready to be tried."""

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
    """The models that can be served, each with its routes."""

    __slots__ = ("_aliases", "by_model", "models", "providers")

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
        self.by_model = {
            (dialect, model.id): tuple(
                make_route(model, one.upstream_model, providers[one.provider], exchange)
                for one in model.routes
                if (exchange := by_provider.get(providers[one.provider].config.dialect))
            )
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


def make_route(
    model: Model, upstream_model: str, state: ProviderState, exchange: Exchange
) -> Route:
    upstream, provider = exchange.upstream, state.config
    target = Target(
        upstream_model=upstream_model,
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
    find_path = partial(upstream.find_path, upstream_model)
    paths = find_path(stream=False), find_path(stream=True)
    passed = (*exchange.passed_headers, *provider.pass_headers)
    return Route(model.id, state, exchange, target, paths, passed)


async def try_routes(
    routes: Sequence[Route], attempt: Callable[[Route], Awaitable[T]], note_failure: NoteFailure
) -> T:
    """Return what `attempt` returns for the first route that works.

    The next route is tried only after a failure which proves that no work was done
    (`GatewayError.next_route`). Raises what the last attempt raised.
    """
    if len(routes) > 1:
        routes = order_routes(routes)
    for route in routes:
        provider, upstream_model = route.provider, route.target.upstream_model
        try:
            probed = provider.enter(upstream_model)
            try:
                result = await attempt(route)
            # A cancelled request must give back its place and the breaker's probe, too.
            except BaseException as error:
                provider.leave(upstream_model, error, probed)
                raise
            provider.leave(upstream_model, None)
        except errors.GatewayError as error:
            route.report(error, note_failure)
            # Once a provider may have begun, another route could charge the caller twice for one request.
            if route is routes[-1] or not error.next_route:
                raise
        else:
            return result
    raise AssertionError("a model has at least one route")


def order_routes(routes: Sequence[Route]) -> Sequence[Route]:
    """Move routes to the end that have an open breaker or rest because the provider asked for it.

    So the last remaining route is always tried.
    """
    # `sorted` is stable: within each group the order of gateway.toml stays.
    return sorted(routes, key=lambda one: one.provider.comes_last(one.target.upstream_model))
