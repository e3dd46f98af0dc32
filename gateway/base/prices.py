"""The price list of a model: a base price, and rules for what providers bill otherwise.

The first rule whose conditions all hold applies to all tokens of a request, as vendors bill long
context, service tiers, speed, regions, and times of the day.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache, partial
from types import MappingProxyType
from typing import Final

from gateway.base.money import FREE, Price, Tokens, compute_cost_nano, count_none, describe_price
from gateway.base.times import ALWAYS, Window

STANDARD: Final = "standard"
_TIERS: Final = {"default": STANDARD, "standard_only": STANDARD, "fast": "priority", "auto": ""}
"""Other words for the same service tier: OpenAI answers `priority` to `fast`. With `auto` the provider
chooses, so it does not name the tier that is served."""


def name_tier(*words: object) -> str:
    """Return the name in rules of the first word that is a service tier; "" for none and for `auto`."""
    for word in words:
        if type(word) is str and (name := _TIERS.get(word, word)):
            return name
    return ""


@dataclass(frozen=True, slots=True)
class BillTerms:
    """The terms, besides tokens, that a request names or that a reply was served on; "" if not stated."""

    service_tier: str = ""
    speed: str = ""
    inference_geo: str = ""


UNSAID: Final = BillTerms()
CONDITIONS: Final = ("service_tier", "speed", "inference_geo")
"""The fields of `BillTerms`, which are also conditions of rules."""


@dataclass(frozen=True, slots=True)
class BillOptions:
    """The options of a request that change the bill."""

    terms: BillTerms = UNSAID
    any_tier: bool = False
    """The provider chooses the service tier."""
    tool_calls: Mapping[str, int] = field(default_factory=count_none)
    """Expected calls of the tools that the provider runs."""
    media: tuple[str, ...] = ()
    """The media that the output may have, by the names of `money.MEDIA`."""
    cache: str = ""
    """How long the input is cached: "5m", "1h", or "" for not at all."""
    adds_input: bool = False
    """The provider may add to the input what a field refers to."""
    by_tokens: bool = True
    """The request may be charged by tokens."""
    image: tuple[str, str] = ("", "")
    """The size and the quality of the images requested; "" leaves the choice to the provider."""
    image_prices: tuple[tuple[str, str, str], ...] = ()
    """The prices of images that may be charged, each by its tool, size and quality; "" is any."""


NOTHING_SPECIAL: Final = BillOptions(any_tier=True)
"""If a request names no service tier, the provider chooses."""


@dataclass(frozen=True, slots=True)
class PriceRule:
    """A price and its conditions; None stands for any."""

    price: Price
    input_above: int | None = None
    """Tokens of input, cached ones among them."""
    service_tier: str | None = None
    speed: str | None = None
    inference_geo: str | None = None
    window: Window = ALWAYS
    """The times of admission."""

    @property
    def why(self) -> str:
        """The conditions in words, such as `input_above 200000, speed fast`."""
        names = ("input_above", *CONDITIONS)
        found = ((name, getattr(self, name)) for name in names)
        words = [f"{name} {value}" for name, value in found if value is not None]
        return ", ".join((*words, *self.window.words))

    def holds(self, tokens: Tokens, terms: BillTerms, at_ms: int) -> bool:
        """Return whether the rule applies to the served tokens and terms, for a request of that time."""
        if self.input_above is not None and tokens.all_input <= self.input_above:
            return False
        # A reply that names no tier was served on the standard tier, which rules can name.
        return self.window.has(at_ms) and all(
            getattr(self, name) in (None, getattr(terms, name) or STANDARD) for name in CONDITIONS
        )

    def may_hold(self, tokens: Tokens, options: BillOptions, at_ms: int) -> bool:
        """Return whether the rule may apply to a request with this estimate of tokens."""
        if self.input_above is not None and tokens.all_input * _MARGIN <= self.input_above:
            return False
        # A provider may serve less than was asked for, so the standard terms count, too.
        return self.window.has(at_ms) and all(
            getattr(self, name) in (None, STANDARD, getattr(options.terms, name) or STANDARD)
            or (name == "service_tier" and options.any_tier)
            for name in CONDITIONS
        )


_MARGIN: Final = 2
"""Factor on the estimated input: real texts have up to twice as many tokens."""


@dataclass(frozen=True, slots=True)
class AppliedPrice:
    """The price of one request, and the conditions that chose it; "" for the base price."""

    price: Price
    rule: str = ""
    text: str = field(init=False, repr=False, compare=False)
    """Price and conditions as JSON without defaults, as the ledger stores them."""
    id: int = field(init=False, repr=False, compare=False)
    """The beginning of the text's SHA-256: equal prices have one id in every process."""

    def __post_init__(self) -> None:
        price = replace(self.price, tools=dict(self.price.tools))  # asdict copies no mapping proxy
        told = {"rule": self.rule, **asdict(price)}
        kept = {name: value for name, value in told.items() if value not in (None, "", {})}
        # orjson refuses integers of 64 bits or more.
        text = json.dumps(kept, separators=(",", ":"), ensure_ascii=False)
        digest = hashlib.sha256(text.encode()).digest()
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "id", int.from_bytes(digest[:8]) >> 1)  # 63 bits, for SQL


@lru_cache(maxsize=1024)
def read_price(text: str) -> AppliedPrice:
    """Parse the text of an `AppliedPrice`; the ledger reads the same few again and again."""
    told = json.loads(text)
    rule = told.pop("rule", "")
    return AppliedPrice(Price(**{**told, "tools": MappingProxyType(told.get("tools", {}))}), rule)


@dataclass(frozen=True, slots=True)
class PriceList:
    """The prices of a model."""

    base: Price
    rules: tuple[PriceRule, ...] = ()
    applied: tuple[AppliedPrice, ...] = field(init=False, repr=False, compare=False)
    """The applied prices of base and rules, made once; each request picks one."""
    input_classes: tuple[str, ...] = field(init=False, repr=False, compare=False)
    """The dearest class of input of each price. A provider may bill any, as most cache unasked."""

    def __post_init__(self) -> None:
        of_rules = (AppliedPrice(rule.price, rule.why) for rule in self.rules)
        object.__setattr__(self, "applied", (AppliedPrice(self.base), *of_rules))
        names = ("input", "cached_input", "cache_write")
        dearest = (max(names, key=partial(getattr, one.price)) for one in self.applied)
        object.__setattr__(self, "input_classes", tuple(dict.fromkeys(dearest)))

    def find(self, tokens: Tokens, terms: BillTerms, at_ms: int) -> AppliedPrice:
        """Return the price for the served tokens and terms, for a request admitted at that time."""
        for number, rule in enumerate(self.rules, 1):
            if rule.holds(tokens, terms, at_ms):
                return self.applied[number]
        return self.applied[0]

    def find_dearest(self, tokens: Tokens, options: BillOptions, at_ms: int) -> AppliedPrice:
        """Return the dearest price that may apply to a request with this estimate of tokens."""
        if not self.rules:  # the usual case, tested first: each request comes here
            return self.applied[0]
        of_rules = zip(self.rules, self.applied[1:], strict=True)
        may_apply = [one for rule, one in of_rules if rule.may_hold(tokens, options, at_ms)]
        return max(
            (self.applied[0], *may_apply),
            key=lambda one: compute_cost_nano(tokens, one.price, options.tool_calls),
        )

    def has_rule(self, condition: str, value: str) -> bool:
        """Return whether a rule prices a value of a condition, such as the tier `priority`.

        A rule with further conditions does not, since the base price would apply without them.
        """
        others = [name for name in CONDITIONS if name != condition]
        return any(
            getattr(rule, condition) == value
            and rule.input_above is None
            and rule.window is ALWAYS
            and all(getattr(rule, name) in (None, STANDARD) for name in others)
            for rule in self.rules
        )


FREE_OF_CHARGE: Final = PriceList(FREE)
NO_COSTS: Final[Mapping[str, PriceList]] = MappingProxyType({})
"""The costs by provider of a model whose providers' prices are unknown."""


def describe_rules(prices: PriceList, *, for_operator: bool = False) -> list[dict[str, object]]:
    """Name the rules for JSON as gateway.toml does, each with its conditions in words."""
    return [
        {
            "why": rule.why,
            "input_above": rule.input_above,
            **{name: getattr(rule, name) for name in CONDITIONS},
            **rule.window.describe(),
            "price": describe_price(rule.price, for_operator=for_operator),
        }
        for rule in prices.rules
    ]
