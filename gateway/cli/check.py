"""`check`: summarise the configuration, warn of its prices, and look at its providers."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Final

from gateway.apikeys import find_last4
from gateway.cli.output import Column, render_fields, render_table
from gateway.cli.tables import limits_of
from gateway.config import SETTINGS, Config, Limits, Model, Provider, Server, quote_key
from gateway.ledger import LedgerError, Terms, check_ledger
from gateway.money import Price, Tokens, describe_price, format_amount
from gateway.prices import PriceList, PriceRule, describe_rules
from gateway.prices import Terms as BillTerms
from gateway.server import find_listen_problem
from gateway.upstream import Finding, look_at_all

_PRICES: Final = {
    "input": "INPUT",
    "cached_input": "CACHED",
    "cache_write": "CACHE WRITE",
    "cache_write_1h": "FOR 1 H",
    "output": "OUTPUT",
    "request": "REQUEST",
    "web_search": "SEARCHES",
}
"""The column titles of the prices."""
ANY_HOST: Final = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not bound


def describe_config(config: Config) -> dict[str, object]:
    """Return the summary as JSON for tools."""
    return {
        "config": str(config.path),
        "listen": listen_address(config),
        "database": str(config.storage.location),
        "currency": config.billing.currency,
        "limits": asdict(config.limits),
        "account_in_flight": config.account_limits.concurrency,
        "providers": [
            {
                "name": provider.name,
                "dialect": provider.dialect,
                "base_url": provider.base_url or None,
                "key": mask_keys(provider.api_keys) or None,
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
        "kind": model.kind,
        "on": _is_on(config, model),
        "routes": [f"{route.provider}/{route.upstream_model}" for route in model.routes],
        "max_input_tokens": model.max_input_tokens,
        "max_output_tokens": model.max_output_tokens,
        "free": model.free,
        "price": describe_price(model.prices.base),
        "price_when": describe_rules(model.prices),
        "allow": sorted(model.allow),
    }


def page_config(config: Config) -> str:
    """Return the summary as text for people."""
    fields = (
        ("config", str(config.path)),
        ("listen", listen_address(config)),
        ("database", str(config.storage.location)),
        ("currency", config.billing.currency),
        ("keys", f"by default {_describe_limits(config.limits)}"),
        ("accounts", f"by default {_describe_limits(config.account_limits)}"),
    )
    parts = [render_fields(fields)]
    if config.providers:
        parts.append(_table_providers(config))
    if config.models:
        parts.append(_table_models(config))
    return "\n\n".join(parts)


def _describe_limits(limits: Limits) -> str:
    return limits_of(Terms(None, **asdict(limits)))


def _table_providers(config: Config) -> str:
    columns = (Column("PROVIDER"), Column("DIALECT"), Column("KEY"), Column("STATE"))
    return render_table(
        columns,
        [
            (provider.name, provider.dialect, mask_keys(provider.api_keys) or "-", _state(provider))
            for provider in config.providers.values()
        ],
    )


def _table_models(config: Config) -> str:
    columns = (
        Column("MODEL"),
        Column("KIND"),
        Column("STATE"),
        *(Column(title, right=True) for title in _PRICES.values()),
        Column("ROUTES"),
    )
    rows = [row for model in config.models.values() for row in _model_rows(config, model)]
    heading = f"Prices in {config.billing.currency} per million tokens, per request, and per thousand searches"
    return f"{heading}\n{render_table(columns, rows)}"


def _model_rows(config: Config, model: Model) -> Iterator[tuple[str, ...]]:
    """Make the row of a model, and one below it for each rule of its prices."""
    state = "on" if _is_on(config, model) else "off"
    routes = ", ".join(f"{route.provider}/{route.upstream_model}" for route in model.routes)
    cells = ("free", *"-" * (len(_PRICES) - 1)) if model.free else _price_cells(model.prices.base)
    yield (model.id, model.kind, state, *cells, routes)
    for rule in model.prices.rules:
        yield ("", "", "", *_price_cells(rule.price), f"when {rule.why}")


def _price_cells(price: Price) -> tuple[str, ...]:
    return tuple(format_amount(getattr(price, name)) for name in _PRICES)


def _is_on(config: Config, model: Model) -> bool:
    return model.id in config.active_models()


def _state(provider: Provider) -> str:
    if provider.off is not None:
        return f"off: {provider.off}"
    return "; ".join(("on", *(f"a key is missing: {reason}" for reason in provider.lacking)))


def listen_address(config: Config) -> str:
    """Return host and port in the notation of URLs."""
    host = config.server.host
    return f"[{host}]:{config.server.port}" if ":" in host else f"{host}:{config.server.port}"


def warn_of_exposure(server: Server) -> str | None:
    """Return a warning if the gateway listens on all addresses, and keys may travel in the clear."""
    if server.host not in ANY_HOST or (server.public_url or "").startswith("https://"):
        return None
    return (
        f'Warning: with host = "{server.host}" everybody who can reach this machine can reach the'
        " gateway, by plain http, which shows keys and prompts on the way. Put a TLS proxy in front"
        " and set public_url under [server] to its https address."
    )


def find_obstacle(config: Config) -> str | None:
    """Return what would keep `serve` from starting; None if nothing would.

    The address is not looked at while a gateway serves from the database, as that one has it.
    """
    try:
        is_served = check_ledger(config.storage.location)
    except LedgerError as error:
        return str(error)
    return None if is_served else find_listen_problem(config.server)


def mask_keys(secrets: Sequence[str]) -> str:
    """Return the last characters of a provider's keys, to tell them apart; "" if there is none."""
    return ", ".join(f"…{find_last4(secret) or ''}" for secret in secrets)


def look(config: Config) -> list[Finding]:
    return asyncio.run(look_at_all(config))


def describe_findings(findings: Sequence[Finding]) -> list[dict[str, object]]:
    return [{**asdict(one), "usable": one.is_usable} for one in findings]


def page_findings(findings: Sequence[Finding]) -> str:
    """Return the findings as text for people."""
    if not findings:
        return "No provider is on that could be asked."
    columns = (Column("PROVIDER"), Column("ASKED"), Column("FOUND"))
    return render_table(columns, [(one.provider, one.url, one.words) for one in findings])


def list_losses(config: Config) -> Iterator[str]:
    """Yield a warning for each model, provider and rule with a price below its cost."""
    for model in config.models.values():
        for provider, costs in model.costs.items():
            yield from dict.fromkeys(_compare(model, provider, costs))


def _compare(model: Model, provider: str, costs: PriceList) -> Iterator[str]:
    """Compare the prices of what each rule of either side is about, and of what none is."""
    for rule in (None, *model.prices.rules, *costs.rules):
        tokens, terms = _satisfy(rule)
        price, cost = model.prices.find(tokens, terms), costs.find(tokens, terms)
        below = [
            f"{name} {format_amount(ours)} < {format_amount(theirs)}"
            for name in SETTINGS["models.ID.price"]
            if (ours := getattr(price.price, name)) < (theirs := getattr(cost.price, name))
        ]
        if below:
            when = f" when {rule.why}" if rule else ""
            yield (
                f"Warning: [models.{quote_key(model.id, always=True)}]: its price is below its cost"
                f" at {provider}{when}: {', '.join(below)}."
            )


def _satisfy(rule: PriceRule | None) -> tuple[Tokens, BillTerms]:
    """Make a request that a rule applies to, or one that no rule is about."""
    if rule is None:
        return Tokens(), BillTerms()
    above = 0 if rule.input_above is None else rule.input_above + 1
    terms = BillTerms(rule.service_tier or "", rule.speed or "", rule.inference_geo or "")
    return Tokens(input=above), terms
