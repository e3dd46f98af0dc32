"""Money: integers of nano-units (10⁻⁹ of the currency), prices per million tokens. No floats.

`$0.15 per million tokens` is kept as 150,000,000 nano-units per million tokens; a cost is
tokens × price, summed over the classes, and rounded up once per request.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, Decimal
from typing import Final

NANO: Final = 10**9
"""Nano-units of one unit of currency. Amounts are integers of these."""
TOKENS_PER_PRICE: Final = 10**6
"""Prices are per million tokens, as providers state them."""
SEARCHES_PER_PRICE: Final = 10**3
"""Prices of web searches are per thousand, as providers state them."""
MAX_AMOUNT_NANO: Final = 10**18
"""A thousand million units. More is a typing error, and SQLite's integers end at nine times that."""

MAX_CHARGED: Final = 10**6
"""Units that a provider can say it charged for a request. More comes from a broken upstream."""

_AMOUNT = re.compile(r"[+-]?[0-9]{1,12}(\.[0-9]{1,18})?")


@dataclass(slots=True)
class Tokens:
    """Token counts by price class, disjoint: all input is the sum of all but `output`."""

    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    """Written to a cache for some minutes."""
    output: int = 0
    cache_write_1h: int = 0
    """Written to a cache for an hour."""

    @property
    def all_input(self) -> int:
        return self.input + self.cached_input + self.cache_write + self.cache_write_1h

    @property
    def total(self) -> int:
        return self.input + self.cached_input + self.cache_write + self.cache_write_1h + self.output


@dataclass(frozen=True, slots=True)
class Price:
    """Nano-units per million tokens of each class, per request, and per thousand web searches."""

    input: int
    output: int
    cached_input: int
    cache_write: int
    request: int = 0
    cache_write_1h: int = 0
    web_search: int = 0


FREE: Final = Price(0, 0, 0, 0)


def compute_cost_nano(tokens: Tokens, price: Price, web_searches: int = 0) -> int:
    """Return the cost of a request, rounded up once: the only rounding there is."""
    scaled = (
        tokens.input * price.input
        + tokens.cached_input * price.cached_input
        + tokens.cache_write * price.cache_write
        + tokens.cache_write_1h * price.cache_write_1h
        + tokens.output * price.output
        + web_searches * price.web_search * (TOKENS_PER_PRICE // SEARCHES_PER_PRICE)
    )
    return -(-scaled // TOKENS_PER_PRICE) + price.request


def parse_amount_nano(text: str) -> int:
    """Parse a decimal like `5`, `0.10` or `-0.000000001` as nano-units.

    Raises:
        ValueError: not a plain decimal, finer than a nano-unit, or beyond a thousand million.
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


def read_charged_nano(value: object) -> int | None:
    """Read an amount from parsed JSON, rounded up to a nano-unit; None if it is none that can be.

    A parser has made a binary fraction of it, which `repr` writes with the very digits that were
    sent, up to 15 of them: amounts below a million are exact.
    """
    if type(value) not in (float, int):
        return None
    amount = Decimal(repr(value))
    if not amount.is_finite() or not 0 <= amount <= MAX_CHARGED:
        return None
    return int((amount * NANO).to_integral_value(ROUND_CEILING))


def format_amount(nano: int) -> str:
    """Return a plain decimal: all significant digits, at least two decimals, no exponent."""
    if nano < 0:
        return f"-{format_amount(-nano)}"
    digits = f"{nano % NANO:09d}".rstrip("0")
    return f"{nano // NANO}.{digits:0<2}"


def align_points(cells: Sequence[str]) -> list[str]:
    """Pad amounts so that their points stand in one column: 0.0004 is not to look like 0.04.

    Other texts, such as "-", are aligned to the right.
    """
    decimals = max((len(cell.partition(".")[2]) for cell in cells), default=0)
    padded = [
        cell + " " * (decimals - len(cell.partition(".")[2])) if "." in cell else cell
        for cell in cells
    ]
    width = max(map(len, padded), default=0)
    return [cell.rjust(width) for cell in padded]


def describe_amount(name: str, nano: int | None) -> dict[str, object]:
    """Return an amount for JSON, twice: as a decimal string, and in nano-units under `…_nano`."""
    return {name: None if nano is None else format_amount(nano), f"{name}_nano": nano}


def describe_tokens(tokens: Tokens) -> dict[str, int]:
    """Name the token counts for JSON; cache writes are one class here, however long they last."""
    return {
        "input_tokens": tokens.input,
        "cached_input_tokens": tokens.cached_input,
        "cache_write_tokens": tokens.cache_write + tokens.cache_write_1h,
        "output_tokens": tokens.output,
    }


def format_tokens(tokens: Tokens) -> str:
    """Name the token counts for people, so that they add up to what the vendors' SDKs show."""
    written = tokens.cache_write + tokens.cache_write_1h
    parts = (("cached", tokens.cached_input), ("written to the cache", written))
    told = ", ".join(f"{name} {number}" for name, number in parts if number)
    of_these = f", of these {told}" if told else ""
    return f"input {tokens.all_input}{of_these}; output {tokens.output}"


def describe_price(price: Price) -> dict[str, object]:
    """Name the prices for JSON as gateway.toml does: `Price` says of what."""
    return {
        **describe_amount("input", price.input),
        **describe_amount("cached_input", price.cached_input),
        **describe_amount("cache_write", price.cache_write),
        **describe_amount("cache_write_1h", price.cache_write_1h),
        **describe_amount("output", price.output),
        **describe_amount("request", price.request),
        **describe_amount("web_search", price.web_search),
    }
