"""`price check` and `price propose`: gateway.toml beside a list of prices, what differs, TOML to paste.

Where a model has a `cost`, that is compared, for each of its providers; else its `price`, with the
entry of its first route. Nothing is fetched or applied.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from itertools import groupby
from pathlib import Path
from typing import Any, Final, Literal

from gateway.admin.fields import Fields
from gateway.base.money import FREE, PRICES, Price, format_amount, format_factor
from gateway.base.prices import CONDITIONS, PriceList, PriceRule
from gateway.base.process import ExitCode
from gateway.base.times import format_iso
from gateway.cli import arguments as read
from gateway.cli.arguments import render_table
from gateway.cli.command import Command
from gateway.cli.verbs import arg, verb
from gateway.config.prices import INHERITED, drop_defaults, fill_defaults
from gateway.config.records import Config, Model, Route
from gateway.extras.price_lists.lists import Amounts, Listed, PriceFile, find_names, open_list

Key = Literal["price", "cost"]
State = Literal["agrees", "drifts", "not in the list", "not compared"]

_TITLES: Final = ("MODEL", "KEY", "ROUTE", "IN THE LIST")
_LIST_CURRENCY: Final = "USD"


@dataclass(frozen=True, slots=True)
class Difference:
    """An amount that differs. None stands for a rule that only the other side has."""

    name: str
    """The name of the amount in gateway.toml, with its rule's condition."""
    old_nano: int | None
    new_nano: int | None


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
    """The prices as the list has them; None where nothing drifts."""


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
    """Put a list's amounts into a price; other amounts stay, or follow as defaults do."""
    merged: dict[str, int | None] = {**drop_defaults(price), **amounts}
    fill_defaults(merged)
    changes: dict[str, Any] = {name: nano for name, nano in merged.items() if nano is not None}
    return replace(price, **changes)


def _compare_rules(
    prices: PriceList, base: Price, listed: Listed, model: Model
) -> tuple[list[PriceRule], list[Difference], tuple[str, ...]]:
    """Return the rules as the list has them, the differences, and what cannot be compared."""
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
        differences.append(Difference(f"output ({new.why})", None, new.price.output))
        rules.insert(_find_place(rules, above), new)
    return rules, differences, notes


def _is_tier(rule: PriceRule) -> bool:
    """Return whether a rule's only condition is the input, as in the lists."""
    return rule == PriceRule(rule.price, rule.input_above) and rule.input_above is not None


def _find_place(rules: list[PriceRule], above: int) -> int:
    """Find the place before the rules for shorter inputs, as the first that holds applies."""
    return next(
        (at for at, rule in enumerate(rules) if _is_tier(rule) and (rule.input_above or 0) < above),
        len(rules),
    )


TENFOLD: Final = 10
"""A factor beyond which a change is marked: it is as likely a fault of the list."""
_THREE_DIGITS: Final = Context(prec=3)


def propose(compared: Sequence[Comparison], today: date) -> str:
    """Write the tables of all models with prices that drift, or a comment alone if none does."""
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
    """Write the amounts that are no defaults, and of a rule those that are not its base price's."""
    kept = drop_defaults(price)
    kept |= {name: None for name in INHERITED if getattr(price, name) == getattr(base, name)}
    shown = [(name, kept[name]) for name in PRICES if model.has_output or name != "output"]
    values = {name: format_amount(nano) for name, nano in shown if nano is not None}
    if price.reported not in (None, base.reported):
        values["reported"] = format_factor(price.reported)
    return _write_table(values)


def describe_difference(one: Difference) -> str:
    """Describe a change: its factor to three digits, and whether it is suspicious."""
    old_nano, new_nano = one.old_nano, one.new_nano
    old, new = ("no rule" if n is None else format_amount(n) for n in (old_nano, new_nano))
    changes = f"{one.name}: {old} -> {new}"
    if old_nano is None or new_nano is None:
        return changes
    if old_nano:
        factor = _THREE_DIGITS.divide(Decimal(new_nano), Decimal(old_nano)).normalize()
        changes += f", × {factor:f}"
    if not new_nano:
        return f"{changes}, BECOMES ZERO"
    is_far = new_nano > TENFOLD * old_nano or old_nano > TENFOLD * new_nano
    return f"{changes}, CHANGES MORE THAN TENFOLD" if is_far else changes


_FILE: Final = arg("file", read.new_file, "the price list that you downloaded")


@verb(
    "price check",
    "price check data.json",
    "price check model_prices_and_context_window.json --json",
    _FILE,
)
def price_check(command: Command, file: Path) -> int:
    """Compare the prices with a list: the JSON of genai-prices, or LiteLLM's map.

    Exits 1 if one drifts, or if the list has none of them.
    """
    compared = _open(command, file)
    drifting = [one for one in compared if one.state == "drifts"]
    rows = [
        (one.model.id, one.key, str(one.route), said)
        for one in compared
        for said in _describe_state(one)
    ]
    command.show([_COMPARISON.describe(one) for one in compared], render_table(_TITLES, rows))
    found = sum(one.state in {"agrees", "drifts"} for one in compared)
    command.say(
        f"Compared: {found} of {len(compared)}. Drifting: {len(drifting)}."
        + (" `price propose FILE` prints TOML to paste." if drifting else "")
        + ("" if found else " Nothing was compared: the list has no price of these routes.")
    )
    return ExitCode.FAILED if drifting or not found else ExitCode.OK


@verb("price propose", "price propose data.json", _FILE)
def price_propose(command: Command, file: Path) -> None:
    """Print prices of a list as TOML to paste, with the old ones in comments. Changes nothing."""
    compared = _open(command, file)
    toml = propose(compared, _today())
    models = [_COMPARISON.describe(one) for one in compared]
    command.show({"toml": toml, "models": models}, toml)
    command.say("Nothing was changed. Read each line before you paste it.")


def _open(command: Command, path: Path) -> list[Comparison]:
    """Compare the models with the list of a file; raises as `open_list` does."""
    listed = open_list(path, _today())
    if command.currency != _LIST_CURRENCY:
        command.say(
            f"Warning: the list is in {_LIST_CURRENCY}, gateway.toml in {command.currency}; the"
            " numbers are compared as they are."
        )
    return compare(command.config, listed)


def _today() -> date:
    return datetime.now(UTC).date()


def _describe_state(one: Comparison) -> list[str]:
    """Describe a comparison in lines: each difference, or the state, and what is to be known."""
    lines = [describe_difference(difference) for difference in one.differences] or [one.state]
    return [*lines, *one.notes]


_DIFFERENCE: Final = Fields[Difference]("name", "old_nano", "new_nano")
_COMPARISON: Final = Fields[Comparison](
    *(("model", "model.id"), "key", ("route", lambda one: str(one.route)), "state"),
    ("listed", lambda one: one.listed or None),
    ("differences", lambda one: [_DIFFERENCE.describe(each) for each in one.differences]),
    ("notes", lambda one: list(one.notes)),
)
