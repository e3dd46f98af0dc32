"""Writes a proposal: TOML to paste, with the list's prices where they drift, and the differences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from decimal import Context, Decimal
from itertools import groupby
from typing import Final

from gateway.base.money import FREE, PRICES, Price, format_amount, format_factor
from gateway.base.prices import CONDITIONS, PriceRule
from gateway.base.times import format_iso
from gateway.config.prices import INHERITED
from gateway.config.records import Model
from gateway.extension import find_advice
from gateway.extras.price_lists.compare import Comparison, Difference, drop_defaults

TENFOLD: Final = 10
"""The factor beyond which a change is marked: it may well be a mistake in the list."""
_THREE_DIGITS: Final = Context(prec=3)


def propose(compared: Sequence[Comparison], today: date) -> str:
    """Write the tables of all models whose prices drift, or only a comment if none does."""
    drifting = {one.model.id for one in compared if one.proposed is not None}
    if not drifting:
        return f"# {today}: nothing drifts from the list."
    lines = [f"# {today}: replace these keys in the tables of these names."]
    for model_id, group in groupby(compared, key=lambda one: one.model.id):
        if model_id in drifting:
            lines += ["", f"[models.{json.dumps(model_id, ensure_ascii=False)}]", *_write(group)]
    return "\n".join(lines)


def _write(group: Iterator[Comparison]) -> Iterator[str]:
    found = list(group)
    for one in found:
        name = json.dumps(one.listed)
        if one.differences:
            yield f"# {one.route.provider}, {name} in the list:"
        yield from (f"# {describe_difference(difference)}" for difference in one.differences)
        yield from (f"# Note: {note}." for note in one.notes)
    model, key, base = found[0].model, found[0].key, (found[0].proposed or found[0].prices).base
    price = '"free"' if base == FREE else _write_price(model, base, FREE)
    yield f"{key} = {price}"
    rules = [] if key == "price" and base == FREE else list(_list_rules(found, base))
    if rules:
        yield f"{key}_when = ["
        yield from (f"    {_write_table(rule)}," for rule in rules)
        yield "]"


def _list_rules(found: Sequence[Comparison], base: Price) -> Iterator[dict[str, str]]:
    """Write each provider's rules; `base` is the first one's price, which is the model's."""
    for one in found:
        prices, own = one.proposed or one.prices, {}
        if len(found) > 1:
            own["provider"] = json.dumps(one.route.provider, ensure_ascii=False)
        for rule in prices.rules:
            price = _write_price(one.model, rule.price, base)
            yield {**own, **_write_conditions(rule), one.key: price}
        if one is not found[0]:
            yield {**own, one.key: _write_price(one.model, prices.base, base)}


def _write_conditions(rule: PriceRule) -> dict[str, str]:
    above = {} if rule.input_above is None else {"input_above": str(rule.input_above)}
    terms = {name: getattr(rule, name) for name in CONDITIONS}
    window, dates = rule.window, {"from": rule.window.from_ms, "until": rule.window.until_ms}
    times = {name: value for name, value in window.describe().items() if name not in dates}
    words = {name: json.dumps(v) for name, v in (terms | times).items() if v is not None}
    return above | words | {name: format_iso(ms) for name, ms in dates.items() if ms is not None}


def _write_table(values: Mapping[str, str]) -> str:
    return "{ " + ", ".join(f"{name} = {value}" for name, value in values.items()) + " }"


def _write_price(model: Model, price: Price, base: Price) -> str:
    """Write the amounts that are no defaults and, in a rule, not inherited from the base price."""
    kept = drop_defaults(price)
    kept |= {name: None for name in INHERITED if getattr(price, name) == getattr(base, name)}
    shown = [(name, kept[name]) for name in PRICES if model.has_output or name != "output"]
    amounts = {name: nano for name, nano in shown if nano is not None}
    values = {name: format_amount(nano) for name, nano in amounts.items()}
    mistake = find_advice().judge_dollars({name: Decimal(text) for name, text in values.items()})
    if mistake:  # the vendor does ask it
        values["sure"] = "true"
    if price.reported not in (None, base.reported):
        values["reported"] = format_factor(price.reported)
    return _write_table(values)


def describe_difference(one: Difference) -> str:
    """Describe a change: its factor to three digits, and whether it is suspicious."""
    old_nano, new_nano = one.old_nano, one.new_nano
    changes = f"{one.name}: {format_amount(old_nano)} -> "
    if new_nano is None:
        return f"{changes}no rule"
    changes += format_amount(new_nano)
    if old_nano:
        factor = _THREE_DIGITS.divide(Decimal(new_nano), Decimal(old_nano)).normalize()
        changes += f", × {factor:f}"
    if not new_nano:
        return f"{changes}, BECOMES ZERO"
    is_far = new_nano > TENFOLD * old_nano or old_nano > TENFOLD * new_nano
    return f"{changes}, CHANGES MORE THAN TENFOLD" if is_far else changes
