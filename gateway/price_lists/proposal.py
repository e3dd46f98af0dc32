"""TOML to paste: the prices of a list as keys of gateway.toml, with the old ones in comments."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Context, Decimal
from itertools import groupby
from typing import Final

from gateway.config import INHERITED, drop_defaults
from gateway.money import FREE, Price, format_amount, format_factor
from gateway.price_lists.comparison import NAMES, Comparison, Difference
from gateway.prices import CONDITIONS, PriceRule
from gateway.times import format_iso

TENFOLD: Final = 10
"""A factor beyond which a change is marked: it is as likely a fault of the list."""
_THREE_DIGITS: Final = Context(prec=3)


def propose(compared: Sequence[Comparison], today: date) -> str:
    """Write the tables of all models of which anything drifts; a comment alone if there is none."""
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
    first = found[0]
    rules = [
        rule
        for number, one in enumerate(found)
        for rule in _list_rules(one, first, is_only=len(found) == 1, is_base=number == 0)
    ]
    base = (first.proposed or first.prices).base
    has_output = first.model.kind != "embedding"
    price = '"free"' if base == FREE else _write_price(base, FREE, has_output=has_output)
    yield f"{first.key} = {price}"
    if rules:
        yield f"{first.key}_when = ["
        yield from (f"    {rule}," for rule in rules)
        yield "]"


def _list_rules(
    one: Comparison, first: Comparison, *, is_only: bool, is_base: bool
) -> Iterator[str]:
    """Write one provider's rules; the first one's base price is that of the model."""
    base = (first.proposed or first.prices).base
    prices, has_output = one.proposed or one.prices, one.model.kind != "embedding"
    own = {} if is_only else {"provider": json.dumps(one.route.provider, ensure_ascii=False)}
    if base == FREE and one.key == "price":
        return
    for rule in prices.rules:
        price = _write_price(rule.price, base, has_output=has_output)
        yield _write_rule(own | _write_conditions(rule), one.key, price)
    if not is_base:
        yield _write_rule(own, one.key, _write_price(prices.base, base, has_output=has_output))


def _write_conditions(rule: PriceRule) -> dict[str, str]:
    above = {} if rule.input_above is None else {"input_above": str(rule.input_above)}
    terms = {name: getattr(rule, name) for name in CONDITIONS}
    window, dates = rule.window, {"from": rule.window.from_ms, "until": rule.window.until_ms}
    times = {name: value for name, value in window.describe().items() if name not in dates}
    words = {name: json.dumps(v) for name, v in (terms | times).items() if v is not None}
    return above | words | {name: format_iso(ms) for name, ms in dates.items() if ms is not None}


def _write_rule(conditions: dict[str, str], key: str, price: str) -> str:
    pairs = [f"{name} = {value}" for name, value in (conditions | {key: price}).items()]
    return "{ " + ", ".join(pairs) + " }"


def _write_price(price: Price, base: Price, *, has_output: bool) -> str:
    """Write the amounts that are no defaults, and of a rule those that are not its base price's."""
    kept = drop_defaults(price)
    kept |= {name: None for name in INHERITED if getattr(price, name) == getattr(base, name)}
    shown = [(name, kept[name]) for name in NAMES if has_output or name != "output"]
    pairs = [f"{name} = {format_amount(nano)}" for name, nano in shown if nano is not None]
    if price.reported not in (None, base.reported):
        pairs.append(f"reported = {format_factor(price.reported)}")
    return "{ " + ", ".join(pairs) + " }"


def describe_difference(one: Difference) -> str:
    """Say what changes, by which factor, and whether that is suspicious."""
    old, new = (None if n is None else format_amount(n) for n in (one.old_nano, one.new_nano))
    if old is None or new is None:
        return f"{one.name}: {old or 'no rule'} -> {new or 'no rule'}"
    factor = f", × {find_factor(one):f}" if one.old_nano else ""
    return f"{one.name}: {old} -> {new}{factor}{find_mark(one)}"


def find_factor(one: Difference) -> Decimal | None:
    """Return the factor of a change, to three digits; None from zero, and for rules."""
    if not one.old_nano or one.new_nano is None:
        return None
    return _THREE_DIGITS.divide(Decimal(one.new_nano), Decimal(one.old_nano)).normalize()


def find_mark(one: Difference) -> str:
    """Mark a price that becomes zero or changes more than tenfold; "" for any other change."""
    old, new = one.old_nano or 0, one.new_nano or 0
    if not new:
        return ", BECOMES ZERO"
    return ", CHANGES MORE THAN TENFOLD" if new > TENFOLD * old or old > TENFOLD * new else ""
