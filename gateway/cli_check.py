"""`check`: what the gateway makes of its configuration, for people and as JSON."""

from __future__ import annotations

from typing import Final

from gateway.cli_output import Column, render_fields, render_table
from gateway.config import Config, Model, Provider
from gateway.money import Price, format_amount
from gateway.views import money

_SHOWN_OF_KEY: Final = 4
_LEAST_HIDDEN_OF_KEY: Final = 12
"""A key shorter than both together is not shown at all."""


def describe_config(config: Config) -> dict[str, object]:
    """The summary for tools."""
    return {
        "config": str(config.path),
        "listen": listen_address(config),
        "database": str(config.storage.path),
        "currency": config.billing.currency,
        "providers": [
            {
                "name": provider.name,
                "dialect": provider.dialect,
                "base_url": provider.base_url or None,
                "key": mask_key(provider.api_key) or None,
                "on": provider.off is None,
                "off_because": provider.off,
            }
            for provider in config.providers.values()
        ],
        "models": [_describe_model(config, model) for model in config.models.values()],
    }


def _describe_model(config: Config, model: Model) -> dict[str, object]:
    return {
        "id": model.id,
        "owned_by": model.owned_by,
        "on": _is_on(config, model),
        "routes": [f"{route.provider}/{route.upstream_model}" for route in model.routes],
        "max_input_tokens": model.max_input_tokens,
        "max_output_tokens": model.max_output_tokens,
        "free": model.free,
        "price": _describe_price(model.price),
    }


def _describe_price(price: Price) -> dict[str, object]:
    return {
        **money("input", price.input),
        **money("cached_input", price.cached_input),
        **money("cache_write", price.cache_write),
        **money("output", price.output),
        **money("request", price.request),
    }


def page_config(config: Config) -> str:
    """The summary for people."""
    fields = (
        ("config", str(config.path)),
        ("listen", listen_address(config)),
        ("database", str(config.storage.path)),
        ("currency", config.billing.currency),
    )
    parts = [render_fields(fields)]
    if config.providers:
        parts.append(_table_providers(config))
    if config.models:
        parts.append(_table_models(config))
    return "\n\n".join(parts)


def _table_providers(config: Config) -> str:
    columns = (Column("PROVIDER"), Column("DIALECT"), Column("KEY"), Column("STATE"))
    return render_table(
        columns,
        [
            (provider.name, provider.dialect, mask_key(provider.api_key) or "-", _state(provider))
            for provider in config.providers.values()
        ],
    )


def _table_models(config: Config) -> str:
    prices = ("INPUT", "CACHED", "CACHE WRITE", "OUTPUT", "REQUEST")
    columns = (
        Column("MODEL"),
        Column("STATE"),
        *(Column(title, right=True) for title in prices),
        Column("ROUTES"),
    )
    rows = [
        (
            model.id,
            "on" if _is_on(config, model) else "off",
            *_price_cells(model),
            ", ".join(f"{route.provider}/{route.upstream_model}" for route in model.routes),
        )
        for model in config.models.values()
    ]
    heading = f"Prices in {config.billing.currency} per million tokens, and per request"
    return f"{heading}\n{render_table(columns, rows)}"


def _price_cells(model: Model) -> tuple[str, ...]:
    price = model.price
    if model.free:
        return ("free", "-", "-", "-", "-")
    amounts = (price.input, price.cached_input, price.cache_write, price.output, price.request)
    return tuple(format_amount(amount) for amount in amounts)


def _is_on(config: Config, model: Model) -> bool:
    return model.id in config.active_models()


def _state(provider: Provider) -> str:
    return "on" if provider.off is None else f"off: {provider.off}"


def listen_address(config: Config) -> str:
    """Host and port as a URL writes them."""
    host = config.server.host
    return f"[{host}]:{config.server.port}" if ":" in host else f"{host}:{config.server.port}"


def mask_key(secret: str) -> str:
    """At most the last four characters of a provider's key, to tell two apart; "" for none."""
    if len(secret) < _SHOWN_OF_KEY + _LEAST_HIDDEN_OF_KEY:
        return "…" if secret else ""
    return f"…{secret[-_SHOWN_OF_KEY:]}"
