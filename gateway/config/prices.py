"""The prices of a model in gateway.toml: the table `price`, and the rules `price_when`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from gateway.config.reader import Place, read_table, show
from gateway.config.settings import SETTINGS
from gateway.money import Price
from gateway.prices import CONDITIONS, FREE_OF_CHARGE, PriceList, PriceRule

HOUR_FACTOR: Final = (8, 5)
"""Anthropic's prices: 2 × input for a cache write for an hour, 1.25 × input for five minutes."""
NO_OUTPUT: Final = "must be left out: embeddings have no output tokens"
_DEFAULTS: Final = (("cached_input", "input"), ("cache_write", "input"))


def read_price_list(
    place: Place, price: object, rules: object, *, has_output: bool = True
) -> PriceList:
    """Read a model's prices; one that makes embeddings has no output. Raises ConfigError."""
    if not isinstance(rules, list):
        raise place.error("price_when", f"must be an array of tables, not {show(rules)}")
    if price == "free":
        if rules:
            raise place.error("price_when", "must be left out where the model is free")
        return FREE_OF_CHARGE
    base = _read_price(place, price, None, has_output=has_output)
    read = (
        _read_rule(place, number, raw, base, has_output=has_output)
        for number, raw in enumerate(rules)
    )
    return PriceList(base, tuple(read))


def _read_rule(
    place: Place, number: int, raw: object, base: Price, *, has_output: bool
) -> PriceRule:
    within = replace(place, within=f"price_when[{number}].")
    settings = read_table(within, raw, SETTINGS["models.ID.price_when"])
    price = _read_price(within, settings.pop("price"), base, has_output=has_output)
    if all(value is None for value in settings.values()):
        names = ", ".join(("input_above", *CONDITIONS))
        raise within.error("price", f"needs a condition beside it: {names}")
    return PriceRule(price, **settings)


def _read_price(place: Place, raw: object, base: Price | None, *, has_output: bool) -> Price:
    """Read a price. Fees that a rule's price leaves out are those of the base price."""
    if not isinstance(raw, dict):
        wanted = "{ input = 0.15, output = 0.60 }" + ("" if base else ' or "free"')
        raise place.error("price", f"must be {wanted}, not {show(raw)}")
    within = replace(place, within=f"{place.within}price.")
    amounts: dict[str, Any] = read_table(within, raw, SETTINGS["models.ID.price"])
    if has_output is (amounts["output"] is None):
        needed = f"is missing; it is {SETTINGS['models.ID.price']['output'].doc}"
        raise within.error("output", needed if has_output else NO_OUTPUT)
    amounts["output"] = amounts["output"] or 0
    for key, origin in _DEFAULTS:
        if amounts[key] is None:
            amounts[key] = amounts[origin]
    if amounts["cache_write_1h"] is None:
        times, over = HOUR_FACTOR
        amounts["cache_write_1h"] = -(-amounts["cache_write"] * times // over)
    for key in ("request", "web_search"):
        if amounts[key] is None:
            amounts[key] = 0 if base is None else getattr(base, key)
    if base is None and not any(amounts.values()):
        raise place.error("price", 'has only zeros; write price = "free" for a free model')
    return Price(**amounts)
