"""The prices of models in gateway.toml, and what their providers bill for them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final

from gateway.base import money
from gateway.base.prices import FREE_OF_CHARGE, NO_COSTS, PriceList, PriceRule
from gateway.base.times import ALWAYS, Window
from gateway.config.reader import Place, Problems, quote_key, read_table, show, suggest
from gateway.config.records import Route
from gateway.config.settings import SETTINGS, read_tool_price

FEES: Final = ("request", "web_search")
"""Prices that default to 0."""
INHERITED: Final = (*FEES, *money.MEDIA, "reported")
"""Amounts that a rule's price takes from the base price where it leaves them out."""
HOUR_FACTOR: Final = (8, 5)
"""Anthropic's prices: 2 × input for a cache write for an hour, 1.25 × input for five minutes."""
SECONDS_PER_MINUTE: Final = 60
NO_OUTPUT: Final = "must be left out: this model makes no output tokens"
TOLD: Final = (
    *("price", "price_when", "tool_prices", "price_image"),
    *("cost", "cost_when", "tool_costs"),
)
"""The keys of a model that are about prices and costs."""
Told = Mapping[str, Any]
"""The unread values of these keys."""
_DEFAULTS: Final = (("cached_input", "input"), ("cache_write", "input"))


def read_price_list(place: Place, told: Told, needed: Collection[str]) -> PriceList:
    """Read a model's prices, which have the amounts that are needed. Raises ConfigError."""
    if told["price"] is None:
        raise place.error("price", f"is missing; it is {SETTINGS['models.ID']['price'].what}")
    if told["price"] == "free":
        _refuse_rest(place, "price", told, "must be left out where the model is free")
        return FREE_OF_CHARGE
    base, rules = _read_amounts(place, "price", told, needed)
    return PriceList(base, tuple(rule for _, rule in rules))


def _add_tools(price: money.Price, tools: Mapping[str, int]) -> money.Price:
    return replace(price, tools=MappingProxyType({**price.tools, **tools})) if tools else price


def read_costs(
    place: Place, routes: Sequence[Route], told: Told, needed: Collection[str]
) -> Mapping[str, PriceList]:
    """Read what each provider bills for a model; empty if that is unknown. Raises ConfigError."""
    providers = dict.fromkeys(route.provider for route in routes)
    if told["cost"] is None:
        _refuse_rest(place, "cost", told, "needs a cost beside it, for all that it is not about")
        return NO_COSTS
    base, rules = _read_amounts(place, "cost", told, needed)
    for number, (name, _) in enumerate(rules):
        if name is not None and name not in providers:
            problem = f"is no provider of the model's routes; {suggest(name, providers)}"
            raise place.error(f"cost_when[{number}].provider", problem)
    return MappingProxyType({name: _pick_costs(name, base, rules) for name in providers})


def _refuse_rest(place: Place, key: str, told: Told, problem: str) -> None:
    """Refuse rules and tools beside a price or a cost that can have none."""
    for name in (f"{key}_when", f"tool_{key}s"):
        if is_set(told, name):
            raise place.error(name, problem)


def is_set(told: Told, name: str) -> bool:
    """Tell whether a key says anything; a wrong type does, even where Python takes it for nothing."""
    return bool(told[name] != SETTINGS["models.ID"][name].default)


def _read_amounts(
    place: Place, key: str, told: Told, needed: Collection[str]
) -> tuple[money.Price, list[tuple[str | None, PriceRule]]]:
    """Read a price or a cost with its tools, and its rules, each with the provider that it names."""
    amounts, tools = told[key], f"tool_{key}s"
    base = money.FREE if amounts == "free" else _read_price(place, key, amounts, None, needed)
    base = _add_tools(base, _read_tools(place, tools, told[tools]))
    if not isinstance(rules := told[f"{key}_when"], list):
        raise place.error(f"{key}_when", f"must be an array of tables, not {show(rules)}")
    found, problems = [], Problems()
    for number, raw in enumerate(rules):
        within = replace(place, within=f"{key}_when[{number}].")
        with problems.collect():
            found.append(_read_rule(within, key, raw, base, needed))
    problems.raise_all()
    return base, found


def _pick_costs(
    provider: str, base: money.Price, told: Sequence[tuple[str | None, PriceRule]]
) -> PriceList:
    """Pick one provider's costs. A rule without further conditions is its base, and ends the list."""
    rules: list[PriceRule] = []
    for name, rule in told:
        if name not in (None, provider):
            continue
        if not rule.why:
            return PriceList(rule.price, tuple(rules))
        rules.append(rule)
    return PriceList(base, tuple(rules))


def _read_tools(place: Place, key: str, raw: object) -> Mapping[str, int]:
    """Read amounts per call, in nano-units, by the names of tools."""
    if not isinstance(raw, dict):
        raise place.error(key, f"must be a table, not {show(raw)}")
    within, found = replace(place, within=f"{key}."), {}
    for name, value in sorted(raw.items()):
        if name == money.WEB_SEARCH:
            part = key.removeprefix("tool_").removesuffix("s")
            raise within.error(name, f"is a part of `{part}`, per thousand searches")
        if not money.TOOL_NAME.fullmatch(name):
            raise within.error(quote_key(name), "must be a tool's name, such as file_search")
        try:
            found[money.name_tool(name)] = read_tool_price(value)
        except ValueError as error:
            raise within.error(name, str(error)) from error
    return MappingProxyType(found)


def _read_rule(
    within: Place, key: str, raw: object, base: money.Price, needed: Collection[str]
) -> tuple[str | None, PriceRule]:
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
    place: Place, key: str, raw: object, base: money.Price | None, needed: Collection[str]
) -> money.Price:
    """Read a price. A rule's price may leave out amounts, which then come from the base price."""
    if not isinstance(raw, dict):
        wanted = "{ input = 0.15, output = 0.60 }" + ("" if base else ' or "free"')
        raise place.error(key, f"must be {wanted}, not {show(raw)}")
    within = replace(place, within=f"{place.within}{key}.")
    amounts: dict[str, Any] = read_table(within, raw, SETTINGS["models.ID.price"])
    del amounts["sure"]  # see `extension.Advice.judge_model`
    for name in ("input", "output", "minute"):
        if name in needed and amounts[name] is None:
            raise within.error(name, f"is missing; it is {SETTINGS['models.ID.price'][name].what}")
    if amounts["output"] is not None and "output" not in needed:
        raise within.error("output", NO_OUTPUT)
    _convert_minute(within, amounts, needed)
    unit = amounts.pop("search_unit")
    amounts |= {name: amounts[name] or 0 for name in ("input", "output")}
    fill_defaults(amounts)
    for name in INHERITED:
        if amounts[name] is None:
            amounts[name] = getattr(base or money.FREE, name)
    told = unit, *(amount for name, amount in amounts.items() if name != "reported")
    if base is None and not any(told):
        raise place.error(key, f'has only zeros; write {key} = "free" for a free model')
    price = money.Price(**amounts, tools=(base or money.FREE).tools)
    price = _add_tools(price, {} if unit is None else {money.SEARCH_UNIT: unit})
    if price.input and money.SEARCH_UNIT in price.tools:
        raise within.error(
            "search_unit", "stands in place of `input`: no provider charges for both"
        )
    return price


def _convert_minute(place: Place, amounts: dict[str, Any], needed: Collection[str]) -> None:
    """Replace the price of a minute by the price of a million seconds, which count as input.

    It is rounded down by less than a millionth of a nano-unit for a second, and a cost is rounded up: so
    it is exact for recordings of less than four hours, and of any length if three divides the price.
    """
    minute = amounts.pop("minute")
    if minute is None:
        return
    if "minute" not in needed or amounts["input"] is not None:
        raise place.error("minute", "stands in place of `input`, for models that transcribe")
    amounts["input"] = minute * money.MILLION // SECONDS_PER_MINUTE


def find_minute_nano(price: money.Price) -> int:
    """Return the price of a minute, as it was written, where the input is counted in seconds."""
    return -(-price.input * SECONDS_PER_MINUTE // money.MILLION)


def fill_defaults(amounts: dict[str, Any]) -> None:
    """Put the defaults in the place of prices of caches that are None."""
    for name, origin in _DEFAULTS:
        if amounts[name] is None:
            amounts[name] = amounts[origin]
    if amounts["cache_write_1h"] is None:
        times, over = HOUR_FACTOR
        # Rounded up, as costs are.
        amounts["cache_write_1h"] = -(-amounts["cache_write"] * times // over)
