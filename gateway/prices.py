"""The price list of a model: a base price, and rules for what providers bill otherwise.

The first rule whose conditions all hold applies to all tokens of a request, as vendors bill long
context, service tiers, speed and regions.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from gateway.money import FREE, Price, Tokens, compute_cost_nano, describe_price

STANDARD: Final = "standard"
_TIERS: Final = {"default": STANDARD, "standard_only": STANDARD, "fast": "priority", "auto": ""}
"""Other words for the same service tier: OpenAI answers `priority` to `fast`. With `auto` the provider
chooses, so it does not name the tier that is served."""


def name_tier(word: object) -> str:
    """Return the name by which rules know a service tier; "" for none, and for `auto`."""
    return _TIERS.get(word, word) if type(word) is str else ""


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms, besides tokens, that a request asks for or a reply was served on; "" is unsaid."""

    service_tier: str = ""
    speed: str = ""
    inference_geo: str = ""


UNSAID: Final = Terms()
CONDITIONS: Final = ("service_tier", "speed", "inference_geo")
"""The fields of `Terms`, which are conditions of a rule, too."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The wishes in a request that change the bill."""

    terms: Terms = UNSAID
    any_tier: bool = False
    """The provider chooses the service tier."""
    web_searches: int = 0
    """Searches that are to be expected."""
    cache: str = ""
    """How long its input is to be cached: "5m", "1h", or "" for not at all."""


NOTHING_SPECIAL: Final = Asked(any_tier=True)
"""Where a request names no service tier, the provider chooses."""


@dataclass(frozen=True, slots=True)
class PriceRule:
    """A price and its conditions; None stands for any."""

    price: Price
    input_above: int | None = None
    """Tokens of input, cached ones among them."""
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None

    @property
    def why(self) -> str:
        """The conditions in words, such as `input_above 200000, speed fast`."""
        names = ("input_above", *CONDITIONS)
        found = ((name, getattr(self, name)) for name in names)
        return ", ".join(f"{name} {value}" for name, value in found if value is not None)

    def holds(self, tokens: Tokens, terms: Terms) -> bool:
        """Return whether the rule applies to what was served."""
        if self.input_above is not None and tokens.all_input <= self.input_above:
            return False
        return all(
            getattr(self, name) in (None, getattr(terms, name) or STANDARD) for name in CONDITIONS
        )

    def may_hold(self, tokens: Tokens, asked: Asked) -> bool:
        """Return whether the rule may apply to a request of about so many tokens."""
        if self.input_above is not None and tokens.all_input * _MARGIN <= self.input_above:
            return False
        tiers = {None, STANDARD, asked.terms.service_tier or STANDARD}
        return (
            (asked.any_tier or self.service_tier in tiers)
            and self.speed in (None, STANDARD, asked.terms.speed or STANDARD)
            and self.inference_geo in (None, STANDARD, asked.terms.inference_geo or STANDARD)
        )


_MARGIN: Final = 2
"""Factor on the estimated input: real texts have up to twice as many tokens."""


@dataclass(frozen=True, slots=True)
class AppliedPrice:
    """The price of one request, and the conditions that chose it; "" for the base price."""

    price: Price
    rule: str = ""


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of a model."""

    base: Price
    rules: tuple[PriceRule, ...] = ()
    _unruled: AppliedPrice = field(init=False, repr=False, compare=False)
    """The base price, as it applies where no rule does: most requests get this one."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "_unruled", AppliedPrice(self.base))

    def find(self, tokens: Tokens, terms: Terms) -> AppliedPrice:
        """Return the price of what was served."""
        for rule in self.rules:
            if rule.holds(tokens, terms):
                return AppliedPrice(rule.price, rule.why)
        return self._unruled

    def find_dearest(self, tokens: Tokens, asked: Asked) -> AppliedPrice:
        """Return the price at which a request of about so many tokens may cost most."""
        if not self.rules:
            return self._unruled
        may_apply = [self._unruled]
        may_apply += (
            AppliedPrice(rule.price, rule.why)
            for rule in self.rules
            if rule.may_hold(tokens, asked)
        )
        return max(
            may_apply, key=lambda one: compute_cost_nano(tokens, one.price, asked.web_searches)
        )

    def has_rule(self, condition: str, value: str) -> bool:
        """Return whether a rule prices a value of a condition, such as the tier `priority`.

        A rule with further conditions does not, since the base price would apply without them.
        """
        others = [name for name in CONDITIONS if name != condition]
        return any(
            getattr(rule, condition) == value
            and rule.input_above is None
            and all(getattr(rule, name) in (None, STANDARD) for name in others)
            for rule in self.rules
        )


FREE_OF_CHARGE: Final = PriceList(FREE)
NO_COSTS: Final[Mapping[str, PriceList]] = MappingProxyType({})
"""The costs by provider of a model whose providers' prices are unknown."""


def describe_rules(prices: PriceList) -> list[dict[str, object]]:
    """Name the rules for JSON as gateway.toml does, each with its conditions in words."""
    return [
        {
            "why": rule.why,
            "input_above": rule.input_above,
            **{name: getattr(rule, name) for name in CONDITIONS},
            "price": describe_price(rule.price),
        }
        for rule in prices.rules
    ]
