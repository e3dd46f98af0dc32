"""The models of gateway.toml, with their prices and what their providers bill for them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from gateway.config.reader import ConfigError, Place, Problems, quote_key, read_table, show, suggest
from gateway.config.records import Model, Provider, Route
from gateway.config.settings import SETTINGS, read_tool_price
from gateway.config.values import check_model_id
from gateway.dialects.records import DEFAULT_KIND, LIMITED, SERVED_BY, ModelKind
from gateway.money import (
    FREE,
    MEDIA,
    PRICES,
    SEARCH_UNIT,
    TOOL_NAME,
    WEB_SEARCH,
    Price,
    name_image,
    name_tool,
)
from gateway.prices import FREE_OF_CHARGE, NO_COSTS, PriceList, PriceRule
from gateway.times import ALWAYS, Window

MAX_OUTPUT_TOKENS: Final = 128_000
"""The output limit of a model without one of its own: the largest that vendors offer."""
FEES: Final = ("request", "web_search")
"""Prices that are 0 unless they are told."""
INHERITED: Final = (*FEES, *MEDIA, "reported")
"""Amounts that a rule's price takes from the base price where it leaves them out."""
HOUR_FACTOR: Final = (8, 5)
"""Anthropic's prices: 2 × input for a cache write for an hour, 1.25 × input for five minutes."""
NEEDED: Final[Mapping[ModelKind, frozenset[str]]] = {
    DEFAULT_KIND: frozenset({"input", "output"}),
    "completion": frozenset({"input", "output"}),
    "embedding": frozenset({"input"}),
    "image": frozenset({"input", "output"}),
    "rerank": frozenset(),
    "audio": frozenset({"input"}),
}
"""The amounts that a price of each kind of model has to tell. One without output has none to tell."""
NO_OUTPUT: Final = "must be left out: this model makes no output tokens"
_DEFAULTS: Final = (("cached_input", "input"), ("cache_write", "input"))


_PRICES: Final = ("price", "price_when", "tool_prices", "cost", "cost_when", "tool_costs")


def read_models(
    file: str,
    root: Mapping[str, Mapping[str, Any]],
    providers: Mapping[str, Provider],
    problems: Problems,
) -> dict[str, Model]:
    models: dict[str, Model] = {}
    for name, table in root["models"].items():
        with problems.collect("models"):
            models[name] = _read_model(file, name, table, root["providers"], providers)
    with problems.collect("models"):
        _check_limits(file, root["models"], models, providers)
    with problems.collect("models"):
        _check_aliases(file, root["models"], models.values())
    return models


def _read_model(
    file: str, model_id: str, raw: object, names: Iterable[str], providers: Mapping[str, Provider]
) -> Model:
    """Read a model. `names`: all providers of the file; `providers`: those without errors."""
    place, problems = Place(file, f"[models.{quote_key(model_id, always=True)}]"), Problems()
    _check_id(place, model_id, raw)
    settings = read_table(place, raw, SETTINGS["models.ID"], problems)
    # A key that had an error of its own is absent from `settings`: no second error about it.
    kind, limit = settings.get("kind", DEFAULT_KIND), settings.pop("max_output_tokens", None)
    routes = tuple(Route(*pair) for pair in settings.pop("routes", ()))
    _check_routes(place, kind, routes, names, providers=providers, problems=problems)
    images, needed = settings.pop("price_image", None), NEEDED[kind]
    if images:
        needed -= {"input", "output"}
    has_output = "output" in needed
    if limit is not None and not has_output:
        with problems.collect():
            raise place.error("max_output_tokens", NO_OUTPUT)
    prices: PriceList | None = None
    price, rules, tools, *of_costs = (settings.pop(name, None) for name in _PRICES)
    with problems.collect():
        if images:
            prices = _read_image_prices(place, images, price or rules or tools, kind)
        elif "kind" in settings:
            prices = _read_price_list(place, price, rules, tools, needed)
    with problems.collect():
        costs = _read_costs(place, routes, *of_costs, needed=needed)
    problems.raise_all()
    assert prices is not None
    owner = settings.pop("owned_by") or routes[0].provider.lower()
    return Model(
        id=model_id,
        owned_by=owner,
        routes=routes,
        max_output_tokens=limit or MAX_OUTPUT_TOKENS if has_output else 0,
        prices=prices,
        costs=costs,
        **settings,
    )


def _check_routes(
    place: Place,
    kind: ModelKind,
    routes: tuple[Route, ...],
    names: Iterable[str],
    *,
    providers: Mapping[str, Provider],
    problems: Problems,
) -> None:
    for route in routes:
        with problems.collect():
            _check_route(place, route, names)
    with problems.collect():
        _check_kind(place, kind, routes, providers)


def _check_route(place: Place, route: Route, names: Iterable[str]) -> None:
    if route.provider not in names:
        known = suggest(route.provider, names)
        raise place.error("routes", f"there is no [providers.{quote_key(route.provider)}]; {known}")


def _check_kind(
    place: Place, kind: ModelKind, routes: tuple[Route, ...], providers: Mapping[str, Provider]
) -> None:
    """Refuse routes that a model of this kind cannot have."""
    for route in routes:
        provider = providers.get(route.provider)
        if provider is not None and provider.dialect not in SERVED_BY[kind]:
            known = " or ".join(SERVED_BY[kind])
            raise place.error("routes", f"kind = {show(kind)} needs a provider of dialect {known}")
        if kind == "embedding" and route.upstream_model != routes[0].upstream_model:
            raise place.error(
                "routes",
                "must name one upstream model: vectors of two models do not mix, so no route can"
                " stand in for another",
            )


def _check_limits(
    file: str,
    raw: Mapping[str, Any],
    models: Mapping[str, Model],
    providers: Mapping[str, Provider],
) -> None:
    """Refuse models without a limit of their own where a provider has to be told one."""
    lacking = [
        f"[models.{quote_key(model.id, always=True)}]"
        for model in models.values()
        if "max_output_tokens" not in raw[model.id]
        and any(
            providers[one.provider].dialect in LIMITED
            for one in model.routes
            if one.provider in providers
        )
    ]
    if lacking:
        raise ConfigError(
            f"{file}: {', '.join(lacking)} max_output_tokens: is missing; a messages provider has "
            "to be told the limit"
        )


def _check_aliases(file: str, ids: Iterable[str], models: Iterable[Model]) -> None:
    """Refuse an alias that is the name of another model, or of two."""
    taken = dict.fromkeys(ids, "is a model of its own")
    for model in models:
        for alias in model.aliases:
            if alias in taken:
                place = Place(file, f"[models.{quote_key(model.id, always=True)}]")
                raise place.error("aliases", f"{show(alias)} {taken[alias]}")
            taken[alias] = f"is an alias of {show(model.id)}"


def _check_id(place: Place, model_id: str, raw: object) -> None:
    """Refuse an id that cannot be, and one that lacks quotes.

    TOML reads `[models.gpt-4.1]` as table `1` of `gpt-4`.
    """
    try:
        check_model_id(model_id)
    except ValueError as error:
        raise place.error("", str(error)) from error
    inner = raw if isinstance(raw, dict) else {}
    for key, value in inner.items():
        if isinstance(value, dict) and key not in SETTINGS["models.ID"]:
            raise place.error(
                quote_key(key),
                "unknown table; put a model id with a dot in quotes: "
                f"[models.{quote_key(f'{model_id}.{key}', always=True)}]",
            )


def _read_price_list(
    place: Place, price: object, rules: object, tools: object, needed: Collection[str]
) -> PriceList:
    """Read a model's prices, which have the amounts that are needed. Raises ConfigError."""
    if price is None:
        raise place.error("price", f"is missing; it is {SETTINGS['models.ID']['price'].doc}")
    if price == "free":
        for key, value in (("price_when", rules), ("tool_prices", tools)):
            if value:
                raise place.error(key, "must be left out where the model is free")
        return FREE_OF_CHARGE
    base = _read_price(place, "price", price, None, needed)
    base = _add_tools(base, _read_tools(place, "tool_prices", tools))
    read = _read_rules(place, "price", rules, base, needed)
    return PriceList(base, tuple(rule for _, rule in read))


def _read_image_prices(place: Place, raw: object, other: object, kind: ModelKind) -> PriceList:
    """Read the prices of images by size and quality, as calls of tools of their names."""
    if kind != "image":
        raise place.error("price_image", 'needs kind = "image"')
    if other:
        raise place.error("price_image", "stands in place of `price` and `tool_prices`")
    if not isinstance(raw, list):
        raise place.error("price_image", f"must be an array of tables, not {show(raw)}")
    found: dict[str, int] = {}
    for number, one in enumerate(raw):
        row = read_table(
            replace(place, within=f"price_image[{number}]."), one, SETTINGS["models.ID.price_image"]
        )
        name = name_image(row["size"], row["quality"])
        if name in found:
            raise place.error(f"price_image[{number}]", "has the size and the quality of another")
        found[name] = row["price"]
    return PriceList(replace(FREE, tools=MappingProxyType(found)), ())


def _add_tools(price: Price, tools: Mapping[str, int]) -> Price:
    return replace(price, tools=MappingProxyType({**price.tools, **tools})) if tools else price


def _read_costs(
    place: Place,
    routes: Sequence[Route],
    cost: object,
    rules: object,
    tools: object,
    *,
    needed: Collection[str],
) -> Mapping[str, PriceList]:
    """Read what each provider bills for a model; empty if that is unknown. Raises ConfigError."""
    providers = dict.fromkeys(route.provider for route in routes)
    if cost is None:
        for key, value in (("cost_when", rules), ("tool_costs", tools)):
            if value:
                raise place.error(key, "needs a cost beside it, for all that it is not about")
        return NO_COSTS
    base = FREE
    if cost != "free":
        base = _read_price(place, "cost", cost, None, needed)
    base = _add_tools(base, _read_tools(place, "tool_costs", tools))
    told = _read_rules(place, "cost", rules, base, needed)
    for number, (name, _) in enumerate(told):
        if name is not None and name not in providers:
            problem = f"is no provider of the model's routes; {suggest(name, providers)}"
            raise place.error(f"cost_when[{number}].provider", problem)
    return MappingProxyType({name: _pick_costs(name, base, told) for name in providers})


def _pick_costs(
    provider: str, base: Price, told: Sequence[tuple[str | None, PriceRule]]
) -> PriceList:
    """Pick one provider's costs: a rule without further conditions is its base, and the last one."""
    rules: list[PriceRule] = []
    for name, rule in told:
        if name not in (None, provider):
            continue
        if not rule.why:
            return PriceList(rule.price, tuple(rules))
        rules.append(rule)
    return PriceList(base, tuple(rules))


def _read_rules(
    place: Place, key: str, rules: object, base: Price, needed: Collection[str]
) -> list[tuple[str | None, PriceRule]]:
    """Read the rules of a price or a cost, each with the provider that it names."""
    if not isinstance(rules, list):
        raise place.error(f"{key}_when", f"must be an array of tables, not {show(rules)}")
    found, problems = [], Problems()
    for number, raw in enumerate(rules):
        with problems.collect():
            found.append(_read_rule(place, key, number, raw, base, needed=needed))
    problems.raise_all()
    return found


def _read_tools(place: Place, key: str, raw: object) -> Mapping[str, int]:
    """Read amounts per call, in nano-units, by the names of tools."""
    if not isinstance(raw, dict):
        raise place.error(key, f"must be a table, not {show(raw)}")
    within, found = replace(place, within=f"{key}."), {}
    for name, value in sorted(raw.items()):
        if name == WEB_SEARCH:
            part = key.removeprefix("tool_").removesuffix("s")
            raise within.error(name, f"is a part of `{part}`, per thousand searches")
        if not TOOL_NAME.fullmatch(name):
            raise within.error(quote_key(name), "must be a tool's name, such as file_search")
        try:
            found[name_tool(name)] = read_tool_price(value)
        except ValueError as error:
            raise within.error(name, str(error)) from error
    return MappingProxyType(found)


def _read_rule(
    place: Place, key: str, number: int, raw: object, base: Price, *, needed: Collection[str]
) -> tuple[str | None, PriceRule]:
    within = replace(place, within=f"{key}_when[{number}].")
    settings = read_table(within, raw, SETTINGS[f"models.ID.{key}_when"])
    price = _read_price(within, key, settings.pop(key), base, needed)
    if all(value is None for value in settings.values()):
        raise within.error(key, f"needs a condition beside it: {', '.join(settings)}")
    provider = settings.pop("provider", None)
    begin, end = settings.pop("from"), settings.pop("until")
    if None not in (begin, end) and begin >= end:
        raise within.error("until", "must be later than `from`")
    window = Window(settings.pop("hours"), settings.pop("weekdays"), begin, end)
    if window == ALWAYS:
        window = ALWAYS  # the very object, which `has` recognises without computing
    return provider, PriceRule(price, **settings, window=window)


def _read_price(
    place: Place, key: str, raw: object, base: Price | None, needed: Collection[str]
) -> Price:
    """Read a price. What a rule's price need not repeat is that of the base price."""
    if not isinstance(raw, dict):
        wanted = "{ input = 0.15, output = 0.60 }" + ("" if base else ' or "free"')
        raise place.error(key, f"must be {wanted}, not {show(raw)}")
    within = replace(place, within=f"{place.within}{key}.")
    amounts: dict[str, Any] = read_table(within, raw, SETTINGS["models.ID.price"])
    for name in ("input", "output"):
        if name in needed and amounts[name] is None:
            raise within.error(name, f"is missing; it is {SETTINGS['models.ID.price'][name].doc}")
    if amounts["output"] is not None and "output" not in needed:
        raise within.error("output", NO_OUTPUT)
    unit = amounts.pop("search_unit")
    amounts |= {name: amounts[name] or 0 for name in ("input", "output")}
    fill_defaults(amounts)
    for name in INHERITED:
        if amounts[name] is None:
            amounts[name] = getattr(base or FREE, name)
    told = unit, *(amount for name, amount in amounts.items() if name != "reported")
    if base is None and not any(told):
        raise place.error(key, f'has only zeros; write {key} = "free" for a free model')
    price = Price(**amounts, tools=(base or FREE).tools)
    price = _add_tools(price, {} if unit is None else {SEARCH_UNIT: unit})
    if price.input and SEARCH_UNIT in price.tools:
        raise within.error(
            "search_unit", "stands in place of `input`: no provider charges for both"
        )
    return price


def fill_defaults(amounts: dict[str, Any]) -> None:
    """Put the defaults in the place of prices of caches that are None."""
    for name, origin in _DEFAULTS:
        if amounts[name] is None:
            amounts[name] = amounts[origin]
    if amounts["cache_write_1h"] is None:
        times, over = HOUR_FACTOR
        # Rounded up, as costs are.
        amounts["cache_write_1h"] = -(-amounts["cache_write"] * times // over)


def drop_defaults(price: Price) -> dict[str, int | None]:
    """Return the amounts of a price, with None for those that `fill_defaults` would put there."""
    full = {name: getattr(price, name) for name in PRICES}
    kept: dict[str, int | None] = dict(full)
    for name in ("cached_input", "cache_write", "cache_write_1h"):
        filled = {**full, name: None}
        fill_defaults(filled)
        if filled[name] == full[name]:
            kept[name] = None
    return kept
