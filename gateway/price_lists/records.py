"""An entry of a price list, and the exact reading of its amounts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from typing import Final, Protocol

from gateway.config import MAX_PRICE, ConfigError, show

_NANO_DIGITS: Final = 9
"""Decimals of a nano-unit: finer amounts, which gateway.toml cannot hold, are rounded."""
_DIGITS: Final = 60
"""Significant digits of an amount, at most: any price has fewer."""
_LEAST_DIGIT: Final = -40
"""The place of a first digit below which an amount is 0: no price is that small."""

Amounts = Mapping[str, int]
"""Nano-units by the names of `Price`; what the list leaves out is absent."""


class PriceListError(ConfigError):
    """The price list cannot be read. The message names the file and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Listed:
    """The prices of a model in a list."""

    name: str
    """As the list has it."""
    amounts: Amounts
    tiers: tuple[tuple[int, Amounts], ...] | None = ()
    """Tokens of input, and the amounts above them; None if they are no rules of ours."""
    notes: tuple[str, ...] = ()
    """Further terms of the list, in words."""


class PriceFile(Protocol):
    """A price list of one format."""

    format: str

    def find(self, host: str, model: str) -> Listed | None:
        """Find the entry of a provider's model. Raises PriceListError if it is not in order."""


def read_amount(value: object, where: str, *, power: int = 0) -> int:
    """Read a price as nano-units, times ten to the `power`, which makes it one of ours.

    Raises:
        PriceListError: it is no number, or none that can be a price.
    """
    number = Decimal(value) if type(value) is int else value
    if not isinstance(number, Decimal) or not number.is_finite():
        raise PriceListError(f"{where}: must be a number, not {show(value)}")
    if not number or number.adjusted() + power < _LEAST_DIGIT:
        number = Decimal(0)
    with localcontext() as context:
        context.prec = _DIGITS
        if number < 0 or number.adjusted() > _DIGITS or number.scaleb(power) > MAX_PRICE:
            raise PriceListError(f"{where}: must be a price from 0 to {MAX_PRICE} per million")
        return int(number.scaleb(power + _NANO_DIGITS).to_integral_value(ROUND_HALF_EVEN))


def stack_tiers(base: Amounts, steps: Mapping[int, Amounts]) -> tuple[tuple[int, Amounts], ...]:
    """Complete each tier by what the tiers below it, or the base, say."""
    found: list[tuple[int, Amounts]] = []
    amounts = base
    for start in sorted(steps):
        amounts = {**amounts, **steps[start]}
        found.append((start, amounts))
    return tuple(found)
