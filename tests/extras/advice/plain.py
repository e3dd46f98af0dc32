"""Rules of prices as functions of plain values, for `examples.txt`."""

from __future__ import annotations

from typing import Any

from gateway.base.prices import PriceList, PriceRule
from gateway.base.times import ALWAYS, Window
from gateway.extras.advice.overlaps import find_conflicts
from tests.base.test_prices import BASE


def make_rule(terms: dict[str, Any]) -> PriceRule:
    """Make a rule; `hours`, `weekdays`, `from_ms` and `until_ms` are its window."""
    window = {name: terms.pop(name) for name in Window.__slots__ if name in terms}
    window |= {name: tuple(map(tuple, window[name])) for name in {"hours"} & window.keys()}
    return PriceRule(BASE, **terms, window=Window(**window) if window else ALWAYS)


def conflict(first: dict[str, Any], second: dict[str, Any]) -> bool:
    """Return whether two rules may both hold and neither contains the other."""
    pair = make_rule(first), make_rule(second)
    found = [[*find_conflicts(PriceList(BASE, rules))] for rules in (pair, pair[::-1])]
    assert found in ([[], []], [[pair], [pair[::-1]]])
    return bool(found[0])
