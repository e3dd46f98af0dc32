"""The summary: providers, models, prices, and how far a balance may fall."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Final

from gateway.admin.fields import Fields, describe
from gateway.admin.views import describe_limits
from gateway.base import money
from gateway.base.addresses import join_address
from gateway.base.ids import find_last4
from gateway.base.prices import describe_rules
from gateway.base.usage import LEAST_TOKENS_PER_FILE
from gateway.cli.output import render, render_fields, render_table
from gateway.config.prices import SECONDS_PER_MINUTE, find_minute_nano
from gateway.config.records import Config, Model, Provider
from gateway.ledger.key_records import Terms

_PRICES: Final = {
    "input": "INPUT",
    "cached_input": "CACHED",
    "cache_write": "CACHE WRITE",
    "cache_write_1h": "FOR 1 H",
    "output": "OUTPUT",
    "request": "REQUEST",
    "web_search": "SEARCHES",
    "audio_input": "AUDIO",
    "image_input": "IMAGES",
    "audio_output": "AUDIO OUT",
    "image_output": "IMAGES OUT",
}
"""The column titles of the prices."""
MOST_IMAGES: Final = 10
"""The images of a request: the images extra takes no more."""
MOST_UNITS: Final = 100
"""The search units of a request: the rerank extra takes 10,000 documents, and a unit has 100."""


def mask_keys(secrets: Sequence[str]) -> str:
    """Return the last characters of a provider's keys, which distinguish them; "" if there is none."""
    return ", ".join(f"…{find_last4(secret) or ''}" for secret in secrets)


def _state(provider: Provider) -> str:
    if provider.off is not None:
        return f"off: {provider.off}"
    return "; ".join(("on", *(f"a key is missing: {reason}" for reason in provider.lacking)))


_PROVIDER: Final = Fields[Provider](
    *("name", "dialect"),
    ("base_url", lambda one: one.base_url or None),
    ("key", lambda one: mask_keys(one.api_keys) or None),
    ("on", lambda one: one.off is None),
    ("off_because", "off"),
    table=(("PROVIDER", "name"), "dialect", "key", ("STATE", _state)),
)


def describe_config(config: Config) -> dict[str, object]:
    """Return the summary as JSON for tools."""
    return {
        "config": str(config.path),
        "listen": join_address(config.server.host, config.server.port),
        "database": str(config.storage.location),
        "currency": config.billing.currency,
        "limits": asdict(config.limits),
        "account_in_flight": config.account_limits.concurrency,
        "providers": [_PROVIDER.describe(one) for one in config.providers.values()],
        "models": [_describe_model(config, model) for model in config.models.values()],
    }


def _is_on(config: Config, model: Model) -> bool:
    """Return whether a model is on, with a provider that is."""
    return model.off is None and any(
        config.providers[one.provider].off is None for one in model.routes
    )


def _describe_model(config: Config, model: Model) -> dict[str, object]:
    return {
        **describe(model, "id", "aliases", "owned_by", "kind"),
        "on": _is_on(config, model),
        "routes": [str(route) for route in model.routes],
        **describe(model, "max_input_tokens", "max_output_tokens", "free"),
        "price": money.describe_price(model.prices.base, for_operator=True),
        "price_when": describe_rules(model.prices, for_operator=True),
        "allow": sorted(model.allow),
        **money.describe_amount("worst_overdraft", find_worst_overdraft_nano(config, model)),
        "worst_factor": find_worst_factor(config, model),
    }


def find_worst_overdraft_nano(config: Config, model: Model) -> int:
    """Return how far below zero the requests of one account to a model may take its balance.

    All requests are assumed to use all they may. Holds and possible costs beyond them leave money for
    all requests but the last; with `full_hold_below = 0` nothing is left for output beyond the holds.
    """
    billing, output = config.billing, model.max_output_tokens
    last_nano = find_most_nano(model, model.max_input_tokens, output)
    if billing.full_hold_below:
        return last_nano
    prices = (model.prices.base, *(rule.price for rule in model.prices.rules))
    unheld = max(output - billing.hold_output_tokens, 0) * max(price.output for price in prices)
    others = (config.account_limits.concurrency or config.server.max_in_flight) - 1
    return last_nano + others * -(-unheld // money.MILLION)


def find_most_nano(model: Model, most_input: int, output: int) -> int:
    """Return the most that so many tokens can cost: in the dearest class and medium, by any rule."""
    uses = [
        money.Tokens(cached_input=most_input, output=output),
        money.Tokens(cache_write=most_input, output=output),
        money.Tokens(cache_write_1h=most_input, output=output),
    ]
    uses += [
        money.Tokens(most_input, output=output, media=media)
        for heard in ("audio_input", "image_input")
        for made in ("audio_output", "image_output")
        for media in (money.NONE, {heard: most_input, made: output})
    ]
    prices = (model.prices.base, *(rule.price for rule in model.prices.rules))
    return max(
        money.compute_cost_nano(use, price, _find_most_calls(price))
        for use in uses
        for price in prices
    )


def _find_most_calls(price: money.Price) -> Mapping[str, int]:
    """Return the most search units and images, of the dearest price, that a request can have."""
    image = money.name_image("", "")
    images = [name for name in price.tools if name.split("_")[0] == image]
    dearest = max(images, key=price.tools.__getitem__, default=None)
    calls = {} if dearest is None else {dearest: MOST_IMAGES}
    return calls | ({money.SEARCH_UNIT: MOST_UNITS} if money.SEARCH_UNIT in price.tools else {})


def find_worst_factor(config: Config, model: Model) -> int:
    """Return how many times its usual hold a request may cost, rounded up.

    The usual hold is that of the smallest file or of a minute, without a limit of the caller's. Speech
    costs what is held for its text.
    """
    if model.unit == "character" or model.free:
        return 1
    usual_input = SECONDS_PER_MINUTE if model.unit == "second" else LEAST_TOKENS_PER_FILE
    held = min(config.billing.hold_output_tokens, model.max_output_tokens)
    usual_nano = find_most_nano(model, min(usual_input, model.max_input_tokens), held)
    most_nano = find_most_nano(model, model.max_input_tokens, model.max_output_tokens)
    return -(-most_nano // usual_nano) if usual_nano else 1


def page_config(config: Config, summary: Mapping[str, object]) -> str:
    """Return the summary as text for people."""
    fields = [(name, str(summary[name])) for name in ("config", "listen", "database", "currency")]
    for name, limits in (("keys", config.limits), ("accounts", config.account_limits)):
        fields.append((name, f"by default {describe_limits(Terms(None, **asdict(limits)))}"))
    parts = [render_fields(fields)]
    if config.providers:
        parts.append(render(_PROVIDER.columns, config.providers.values()))
    if config.models:
        parts.append(_table_models(config))
    return "\n\n".join(parts)


def _table_models(config: Config) -> str:
    prices = [one.prices for one in config.models.values()]
    told = [one.base for one in prices] + [rule.price for one in prices for rule in one.rules]
    names = [
        n
        for n in money.PRICES
        if n not in money.MEDIA or any(getattr(one, n) is not None for one in told)
    ]
    prices_titles = (f">{_PRICES[name]}" for name in names)
    titles = ("MODEL", "KIND", "STATE", *prices_titles, ">OVERDRAFT", ">× HOLD", "ROUTES")
    rows = [row for model in config.models.values() for row in _model_rows(config, model, names)]
    heading = (
        f"Prices in {config.billing.currency} per million tokens, per request, and per thousand searches\n"
        "Overdraft: what the requests of an account may cost beyond its balance, all at once\n"
        f"× hold: how many times its usual hold one request may cost{_tell_full(config)}"
    )
    return f"{heading}\n{render_table(titles, rows)}"


def _tell_full(config: Config) -> str:
    times = config.billing.full_hold_below
    return f"; while less than {times} times that cost is left, all of it is held" if times else ""


def _model_rows(config: Config, model: Model, names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Make the row of a model, and those below it for aliases, rules of its prices and tools."""
    state = "on" if _is_on(config, model) else "off"
    routes = ", ".join(map(str, model.routes))
    nothing = "-" * (len(names) - 1)
    cells = ("free", *nothing) if model.free else _price_cells(model.prices.base, names)
    worst = ("-", "-")
    if not model.free:
        overdraft = money.format_amount(find_worst_overdraft_nano(config, model))
        worst = (overdraft, str(find_worst_factor(config, model)))
    yield (model.id, model.kind, state, *cells, *worst, routes)

    def below(said: str, cells: Sequence[str] = ("-", *nothing)) -> tuple[str, ...]:
        return ("", "", "", *cells, "", "", said)

    if model.aliases:
        yield below(f"also called: {', '.join(model.aliases)}")
    for rule in model.prices.rules:
        cells = _price_cells(rule.price, names)
        yield below(f"when {rule.why}{_factor(rule.price)}", cells)
    if model.unit == "second":
        minute = money.format_amount(find_minute_nano(model.prices.base))
        yield below(f"per minute: {minute}; its input is seconds")
    if tools := model.prices.base.tools:
        told = ", ".join(f"{name} {money.format_amount(nano)}" for name, nano in tools.items())
        yield below(f"per call: {told}")
    if factor := _factor(model.prices.base):
        yield below(factor.removeprefix(": "))


def _price_cells(price: money.Price, names: Sequence[str]) -> tuple[str, ...]:
    found = (getattr(price, name) for name in names)
    return tuple("-" if nano is None else money.format_amount(nano) for nano in found)


def _factor(price: money.Price) -> str:
    if price.reported is None:
        return ""
    return (
        f": {money.format_factor(price.reported)} × what the provider says it charged, if it does"
    )
