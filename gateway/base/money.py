"""Money: integers of nano-units (10⁻⁹ of the currency), prices per million tokens. No floats.

`$0.15 per million tokens` is kept as 150,000,000 nano-units per million tokens; a cost is
tokens × price, summed over the classes, and rounded up once per request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import ROUND_CEILING, Decimal
from types import MappingProxyType
from typing import Final

NANO: Final = 10**9
"""Nano-units of one unit of currency. Amounts are integers of these."""
MILLION: Final = 10**6
"""Prices are per million tokens, as providers state them."""
SEARCHES_PER_PRICE: Final = 10**3
"""Prices of web searches are per thousand, as providers state them."""
WEB_SEARCH: Final = "web_search"
"""The tool that nearly all providers run."""
SEARCH_UNIT: Final = "search_unit"
"""The name, among tools, of what Cohere's reranking is priced by: a query over up to 100 documents."""
TOOL_NAME: Final = re.compile(r"[a-z0-9_]{1,64}")
"""The name of a tool that a provider runs."""
_TOOL_ALIASES: Final = {"code_interpreter": "code_execution", "search": WEB_SEARCH}


MAX_AMOUNT_NANO: Final = 10**18
"""A thousand million units. More is a typing error, and SQLite's integers end at nine times as much."""

MAX_CHARGED: Final = 10**6
"""The most dollars that a provider can report as its charge. More comes from a broken upstream."""
_AMOUNT: Final = re.compile(r"[+-]?[0-9]{1,12}(\.[0-9]{1,18})?")
NONE: Final[Mapping[str, int]] = MappingProxyType({})
"""Counts of nothing, such as the calls of a request without tools."""


def name_tool(name: str) -> str:
    """Return the name of a tool in prices and receipts; vendors have several for the same one."""
    return _TOOL_ALIASES.get(name, name)


def name_image(size: str | None, quality: str | None) -> str:
    """Return the name, among tools, of an image of a size and a quality; None stands for any."""
    return "_".join(filter(None, ("images", size, quality)))


def count_none() -> Mapping[str, int]:
    """Return `NONE`, as the default of a dataclass's field."""
    return NONE


MEDIA: Final[Mapping[str, str]] = {
    "audio_input": "input",
    "image_input": "input",
    "audio_output": "output",
    "image_output": "output",
}
"""Tokens of other media that may have separate prices, and the class that each is part of."""


@dataclass(slots=True)
class Tokens:
    """Token counts by price class, disjoint: all input is the sum of all but `output`."""

    input: int = 0
    cached_input: int = 0
    cache_write: int = 0
    """Tokens written to a cache for some minutes."""
    output: int = 0
    cache_write_1h: int = 0
    """Tokens written to a cache for an hour."""
    media: Mapping[str, int] = field(default_factory=count_none)
    """The part of `input` and `output` that is not text, by the names of `MEDIA`."""

    @property
    def all_input(self) -> int:
        return self.input + self.cached_input + self.cache_write + self.cache_write_1h

    @property
    def total(self) -> int:
        return self.input + self.cached_input + self.cache_write + self.cache_write_1h + self.output


@dataclass(frozen=True, slots=True)
class Price:
    """Nano-units per million tokens of each class, per request, and of what tools charge."""

    input: int
    output: int
    cached_input: int
    cache_write: int
    request: int = 0
    cache_write_1h: int = 0
    web_search: int = 0
    """Per thousand searches."""
    audio_input: int | None = None
    """None means the general price of input, or of output; so it does for the three below."""
    image_input: int | None = None
    audio_output: int | None = None
    image_output: int | None = None
    reported: int | None = None
    """A factor on the provider's reported charge, in millionths: the product is the cost. The prices
    above are for replies without such a report."""
    tools: Mapping[str, int] = field(default_factory=count_none)
    """Per call of a tool that the provider runs, by the tool's name."""

    def has_tool(self, name: str) -> bool:
        """Return whether calls of a tool have a price."""
        return self.web_search > 0 if name == WEB_SEARCH else name in self.tools


FREE: Final = Price(0, 0, 0, 0)


def compute_cost_nano(
    tokens: Tokens,
    price: Price,
    tool_calls: Mapping[str, int] = NONE,
    reported_nano: int | None = None,
) -> int:
    """Return the cost of a request. It is rounded up once, and nowhere else.

    `reported_nano` is the charge that the provider reports, if any.
    """
    if price.reported is not None and reported_nano is not None:
        scaled = reported_nano * price.reported
        # The bill covers the provider's tokens and tools; only the operator's request price is added.
        return -(-scaled // MILLION) + price.request
    scaled = (
        tokens.input * price.input
        + tokens.cached_input * price.cached_input
        + tokens.cache_write * price.cache_write
        + tokens.cache_write_1h * price.cache_write_1h
        + tokens.output * price.output
    )
    # Media tokens are part of the input or output already, so only the price difference is added.
    for name, count in tokens.media.items() if tokens.media else ():
        own: int | None = getattr(price, name)
        if own is not None:
            scaled += count * (own - getattr(price, MEDIA[name]))
    for name, count in tool_calls.items() if tool_calls else ():
        if name == WEB_SEARCH:
            # Scaled like tokens, so that all classes are summed before the single rounding.
            scaled += count * price.web_search * (MILLION // SEARCHES_PER_PRICE)
        else:
            scaled += count * price.tools.get(name, 0) * MILLION
    # Rounded up, so that small requests are never free. In integers, as floats would lose digits.
    return -(-scaled // MILLION) + price.request


def parse_amount_nano(text: str) -> int:
    """Parse a decimal like `5`, `0.10` or `-0.000000001` as nano-units.

    Raises:
        ValueError: not a plain decimal, finer than a nano-unit, or beyond a thousand million.
    """
    if not _AMOUNT.fullmatch(text):
        raise ValueError(f"'{text[:40]}' is not an amount; write a plain decimal such as 5 or 0.25")
    # Decimal's 28 digits are enough: 10 before the point (`MAX_AMOUNT_NANO`), 18 behind it.
    scaled = Decimal(text) * NANO
    nano = int(scaled)
    if nano != scaled:
        raise ValueError(f"'{text[:40]}' is finer than a nano-unit; use at most 9 decimals")
    if abs(nano) > MAX_AMOUNT_NANO:
        raise ValueError(f"'{text[:40]}' is beyond a thousand million; is it a typing error?")
    return nano


def read_charged_nano(value: object) -> int | None:
    """Read an amount from parsed JSON, a number or its text, rounded up to a nano-unit; None for others.

    The parser has made a float of it. `repr` restores the digits that were sent, up to 15 of them:
    amounts below a million are exact.
    """
    # `type`, not isinstance: a bool is an int, and true is no amount.
    if type(value) is str and _AMOUNT.fullmatch(value):
        amount = Decimal(value)
    elif type(value) in (float, int):
        amount = Decimal(repr(value))
    else:
        return None
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
    """Pad amounts so that their decimal points align: 0.0004 must not look like 0.04.

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
        **{f"{name}_tokens": count for name, count in tokens.media.items()},
    }


def format_tokens(tokens: Tokens) -> str:
    """Name the token counts for people, so that they add up to the counts in vendors' SDKs."""
    written = tokens.cache_write + tokens.cache_write_1h
    parts = [("cached", tokens.cached_input), ("written to the cache", written)]
    parts += [(name.partition("_")[0], tokens.media.get(name, 0)) for name in _INPUT_MEDIA]
    made = [(name.partition("_")[0], tokens.media.get(name, 0)) for name in _OUTPUT_MEDIA]
    return (
        f"input {tokens.all_input}{_name_parts(parts)}; output {tokens.output}{_name_parts(made)}"
    )


_INPUT_MEDIA: Final = [name for name, part in MEDIA.items() if part == "input"]
_OUTPUT_MEDIA: Final = [name for name, part in MEDIA.items() if part == "output"]


def _name_parts(parts: Sequence[tuple[str, int]]) -> str:
    told = ", ".join(f"{name} {number}" for name, number in parts if number)
    return f", of these {told}" if told else ""


def describe_price(price: Price, *, for_operator: bool = False) -> dict[str, object]:
    """Name the prices for JSON as gateway.toml does; media without a price of their own are absent.

    The factor on the provider's bill is left out: with the cost it would reveal the bill.
    """
    told: dict[str, object] = {}
    for name in PRICES:
        if (nano := getattr(price, name)) is not None:
            told |= describe_amount(name, nano)
    told["by_bill"] = price.reported is not None
    if for_operator and price.reported is not None:
        told["reported"] = format_factor(price.reported)
    told["tools"] = {name: describe_amount("price", nano) for name, nano in price.tools.items()}
    return told


PRICES: Final = (
    *("input", "cached_input", "cache_write", "cache_write_1h", "output", "request", "web_search"),
    *MEDIA,
)
"""The amounts of a price, in the order in which people read them."""


def format_factor(millionths: int) -> str:
    """Return a factor such as 1.2 as a plain decimal."""
    return f"{Decimal(millionths).scaleb(-6).normalize():f}"
