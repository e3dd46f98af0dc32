"""Money: integers of nano-units (10⁻⁹ of the currency), prices per million tokens. No floats.

`$0.15 per million tokens` is kept as 150,000,000 nano-units per million tokens; a cost is
tokens × price, summed over the classes, and rounded up once per request (design.md §5).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

NANO: Final = 10**9
TOKENS_PER_PRICE: Final = 10**6
MAX_AMOUNT_NANO: Final = 10**18
"""A thousand million units: more in one step is a typing error, and SQLite's integers end at 9.2."""

_AMOUNT = re.compile(r"[+-]?[0-9]{1,12}(\.[0-9]{1,18})?")


@dataclass(frozen=True, slots=True)
class Tokens:
    """Token counts by price class, disjoint: all input is input + cached_input + cache_write."""

    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    output: int = 0

    @property
    def total(self) -> int:
        return self.input + self.cached_input + self.cache_write + self.output


@dataclass(frozen=True, slots=True)
class Price:
    """Nano-units per million tokens of each class; `request` is nano-units per request."""

    input: int
    output: int
    cached_input: int
    cache_write: int
    request: int = 0


FREE: Final = Price(0, 0, 0, 0)


def compute_cost_nano(tokens: Tokens, price: Price) -> int:
    """What a request costs, rounded up once: the only rounding there is."""
    scaled = (
        tokens.input * price.input
        + tokens.cached_input * price.cached_input
        + tokens.cache_write * price.cache_write
        + tokens.output * price.output
    )
    return -(-scaled // TOKENS_PER_PRICE) + price.request


def parse_amount_nano(text: str) -> int:
    """Nano-units of a decimal like `5`, `0.10` or `-0.000000001`.

    Raises:
        ValueError: no plain decimal, finer than a nano-unit, or beyond a thousand million.
    """
    if not _AMOUNT.fullmatch(text):
        raise ValueError(f"'{text[:40]}' is not an amount; write a plain decimal such as 5 or 0.25")
    scaled = Decimal(text) * NANO
    nano = int(scaled)
    if nano != scaled:
        raise ValueError(f"'{text[:40]}' is finer than a nano-unit; use at most 9 decimals")
    if abs(nano) > MAX_AMOUNT_NANO:
        raise ValueError(f"'{text[:40]}' is beyond a thousand million; is it a typing error?")
    return nano


def format_amount(nano: int) -> str:
    """The plain decimal of nano-units: all digits that matter, at least two decimals, no exponent."""
    sign = "-" if nano < 0 else ""
    whole, fraction = divmod(abs(nano), NANO)
    digits = f"{fraction:09d}".rstrip("0")
    return f"{sign}{whole}.{digits:0<2}"
