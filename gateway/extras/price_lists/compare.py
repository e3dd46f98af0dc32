"""Compares the prices of gateway.toml with those of a list.

If a model has a `cost`, that is compared, for each of its providers. Otherwise its `price` is compared with
the entry of its first route.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

from gateway.base.money import PRICES, Price
from gateway.base.prices import PriceList, PriceRule
from gateway.config.prices import fill_defaults
from gateway.config.records import Config, Model, Route
from gateway.extras.price_lists.entries import Amounts, Listed, find_names
from gateway.extras.price_lists.lists import PriceFile

Key = Literal["price", "cost"]
State = Literal["agrees", "drifts", "not in the list", "not compared"]


@dataclass(frozen=True, slots=True)
class Difference:
    """An amount that differs. If only the list has a rule, its amounts are compared with the base price."""

    name: str
    """The name of the amount in gateway.toml, with its rule's condition."""
    old_nano: int
    new_nano: int | None
    """None if the list has no such rule."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """The prices of one model at one provider."""

    model: Model
    key: Key
    route: Route
    prices: PriceList
    """The prices of gateway.toml."""
    state: State = "not in the list"
    listed: str = ""
    """The entry's name in the list."""
    differences: tuple[Difference, ...] = ()
    notes: tuple[str, ...] = ()
    proposed: PriceList | None = None
    """The prices with the list's amounts; None if nothing drifts."""


def compare(config: Config, file: PriceFile) -> list[Comparison]:
    """Compare all models, in their order. Raises PriceListError."""
    return [
        _compare(config, file, one) for model in config.models.values() for one in _choose(model)
    ]


def _choose(model: Model) -> Iterator[Comparison]:
    first = {route.provider: route for route in reversed(model.routes)}
    if not model.costs:
        yield Comparison(model, "price", model.routes[0], model.prices)
    for provider, prices in model.costs.items():
        yield Comparison(model, "cost", first[provider], prices)


def _compare(config: Config, file: PriceFile, one: Comparison) -> Comparison:
    model, prices = one.model, one.prices
    if one.key == "price" and model.free:
        return replace(one, state="not compared", notes=("it is free here",))
    if model.unit != "token":
        return replace(one, state="not compared", notes=(f"its input is {model.unit}s",))
    names = find_names(config.providers[one.route.provider].base_url)
    listed = names and file.find(getattr(names, file.format), one.route.upstream_model)
    if listed is None:
        return one
    amounts = _pick(listed.amounts, model)
    if not amounts:
        notes = ("the list has no price of tokens for it", *listed.notes)
        return replace(one, state="not compared", listed=listed.name, notes=notes)
    differences = list(_differ(prices.base, amounts, ""))
    base = overlay(prices.base, amounts)
    rules, found, notes = _compare_rules(prices, base, listed, model)
    differences += found
    return replace(
        one,
        state="drifts" if differences else "agrees",
        listed=listed.name,
        differences=tuple(differences),
        notes=notes,
        proposed=PriceList(base, tuple(rules)) if differences else None,
    )


def _pick(amounts: Amounts, model: Model) -> Amounts:
    """Leave out amounts that the model cannot have: embeddings have no output."""
    return {k: v for k, v in amounts.items() if model.has_output or k != "output"}


def _differ(price: Price, amounts: Amounts, rule: str) -> Iterator[Difference]:
    for name in PRICES:
        old_nano = getattr(price, name)
        if amounts.get(name, old_nano) != old_nano:
            yield Difference(f"{name}{rule}", old_nano, amounts[name])


def overlay(price: Price, amounts: Amounts) -> Price:
    """Put a list's amounts into a price. Other amounts stay, except that defaults are computed again."""
    merged: dict[str, int | None] = {**drop_defaults(price), **amounts}
    fill_defaults(merged)
    changes: dict[str, Any] = {name: nano for name, nano in merged.items() if nano is not None}
    return replace(price, **changes)


def _compare_rules(
    prices: PriceList, base: Price, listed: Listed, model: Model
) -> tuple[list[PriceRule], list[Difference], tuple[str, ...]]:
    """Return the rules with the list's amounts, the differences, and notes on what cannot be compared."""
    others = [rule.why for rule in prices.rules if not _is_tier(rule)]
    notes = (*listed.notes, *(f"the rule {why} has no counterpart" for why in others))
    if listed.tiers is None:
        return list(prices.rules), [], notes
    tiers = {above: _pick(amounts, model) for above, amounts in listed.tiers}
    rules: list[PriceRule] = []
    differences: list[Difference] = []
    for rule in prices.rules:
        amounts = tiers.pop(rule.input_above or 0, None) if _is_tier(rule) else {}
        if amounts is None:
            differences.append(Difference(f"output ({rule.why})", rule.price.output, None))
            continue
        differences += _differ(rule.price, amounts, f" ({rule.why})")
        rules.append(replace(rule, price=overlay(rule.price, amounts)))
    for above, amounts in tiers.items():  # rules that the list has and gateway.toml lacks
        new = PriceRule(overlay(base, amounts), above)
        differences += _differ(prices.base, amounts, f" ({new.why})")
        rules.insert(_find_place(rules, above), new)
    return rules, differences, notes


def _is_tier(rule: PriceRule) -> bool:
    """Return whether a rule's only condition is the input, as in the lists."""
    return rule == PriceRule(rule.price, rule.input_above) and rule.input_above is not None


def _find_place(rules: list[PriceRule], above: int) -> int:
    """Find the place before the rules for shorter inputs, since the first rule that matches applies."""
    return next(
        (at for at, rule in enumerate(rules) if _is_tier(rule) and (rule.input_above or 0) < above),
        len(rules),
    )


def drop_defaults(price: Price) -> dict[str, int | None]:
    """Return the amounts of a price, with None for defaults (see `fill_defaults`)."""
    full = {name: getattr(price, name) for name in PRICES}
    kept: dict[str, int | None] = dict(full)
    for name in ("cached_input", "cache_write", "cache_write_1h"):
        filled = {**full, name: None}
        fill_defaults(filled)
        if filled[name] == full[name]:
            kept[name] = None
    return kept
