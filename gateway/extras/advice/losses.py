"""Warnings of a valid configuration: prices below cost, rules that may both hold, addresses that give 404."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gateway.base import money
from gateway.base.prices import BillTerms, PriceList, PriceRule
from gateway.base.times import unix_ms
from gateway.config.reader import quote_key
from gateway.config.records import Config, Model
from gateway.extras.advice.mistaken import find_base
from gateway.extras.advice.overlaps import find_conflicts, find_time_ms


class Loss(NamedTuple):
    """A model that is sold below its cost at a provider, and the warning of it."""

    model: str
    provider: str
    warning: str


def list_warnings(config: Config) -> Iterator[str]:
    yield from list_lost_bases(config)
    yield from (one.warning for one in list_losses(config))
    yield from list_conflicts(config)


def list_lost_bases(config: Config) -> Iterator[str]:
    """Yield a warning for each provider whose address is known to be answered with 404."""
    for one in config.providers.values():
        if meant := find_base(one.base_url):
            yield (
                f"[providers.{quote_key(one.name)}] base_url: every call will get a 404 there; write"
                f' base_url = "{meant}"'
            )


def list_conflicts(config: Config) -> Iterator[str]:
    """Yield a warning for each two rules that may hold at once, where the order alone decides."""
    for model in config.models.values():
        costs = ((f"cost_when at {name}", one) for name, one in model.costs.items())
        for where, prices in (("price_when", model.prices), *costs):
            for first, second in find_conflicts(prices):
                yield (
                    f"[models.{quote_key(model.id, always=True)}] {where}: the rules"
                    f" '{first.why}' and '{second.why}' may both hold for a request; the first one"
                    " applies. If that is not meant, add a rule with the conditions of both before"
                    " them."
                )


def list_losses(config: Config) -> Iterator[Loss]:
    """Yield each model, provider and rule with a price below its cost."""
    for model in config.models.values():
        for provider, costs in model.costs.items():
            # Rules of both sides may lead to the same warning.
            yield from dict.fromkeys(_compare(model, provider, costs))


def _compare(model: Model, provider: str, costs: PriceList) -> Iterator[Loss]:
    """Compare the prices of a request for each rule of either side, and of a request without a rule."""
    for rule in (None, *model.prices.rules, *costs.rules):
        case = _satisfy(rule)
        price, cost = model.prices.find(*case).price, costs.find(*case).price
        ours, theirs = _list_amounts(price, cost), _list_amounts(cost, price)
        below = [
            f"{name} {money.format_amount(amount)} < {money.format_amount(theirs.get(name, 0))}"
            for name, amount in ours.items()
            if amount < theirs.get(name, 0)
        ]
        if price.reported is not None and price.reported < (bill := cost.reported or money.MILLION):
            below.append(
                f"reported {money.format_factor(price.reported)} < {money.format_factor(bill)}"
            )
        if below:
            when = f" when {rule.why}" if rule else ""
            warning = (
                f"[models.{quote_key(model.id, always=True)}]: its price is below its cost"
                f" at {provider}{when}: {', '.join(below)}."
            )
            yield Loss(model.id, provider, warning)


def _list_amounts(price: money.Price, other: money.Price) -> dict[str, int]:
    """Return the amounts that apply, by name.

    If only the other side has a price of a medium, the price of plain tokens is taken.
    """
    amounts: dict[str, int] = {}
    for name in money.PRICES:
        if name not in money.MEDIA or (getattr(price, name), getattr(other, name)) != (None, None):
            own: int | None = getattr(price, name)
            amounts[name] = getattr(price, money.MEDIA[name]) if own is None else own
    return {**amounts, **price.tools}


def _satisfy(rule: PriceRule | None) -> tuple[money.Tokens, BillTerms, int]:
    """Make a request that a rule applies to, or one that is about nothing special, and its time."""
    now_ms = unix_ms()
    if rule is None:
        return money.Tokens(), BillTerms(), now_ms
    above = 0 if rule.input_above is None else rule.input_above + 1
    terms = BillTerms(rule.service_tier or "", rule.speed or "", rule.inference_geo or "")
    return money.Tokens(input=above), terms, find_time_ms(rule.window, now_ms)
