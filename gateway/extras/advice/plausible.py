"""Whether prices can be meant: in the range of what vendors ask, or of another unit by mistake.

`check`, each start and each reload warn of a price that no vendor comes near. A price that is a thousand
times off is refused. `sure = true` in any price of the model allows both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from gateway.base.money import MEDIA, NANO, format_amount
from gateway.config.prices import TOLD
from gateway.config.reader import ConfigError, Place
from gateway.config.records import Model
from gateway.config.settings import SETTINGS

_TOKENS: Final = ("input", "cached_input", "cache_write", "cache_write_1h", "output", *MEDIA)
_ASKED: Final[Mapping[str, tuple[str, str]]] = {
    **dict.fromkeys(_TOKENS, ("0.005", "600")),
    "cached_input": ("0.0005", "600"),
    "minute": ("0.0002", "0.4"),
    "request": ("0.0001", "5"),
    "web_search": ("0.5", "100"),
    "search_unit": ("0.0001", "0.5"),
    "": ("0.0001", "5"),
}
"""The least and the most dollars that vendors ask; "" is the call of a tool, or an image."""
_BELOW, _ABOVE = 5, 3
"""How many times below the least, or above the most, a price is doubted."""
_REFUSED: Final = 1000
"""How many times below or above it is refused: no vendor is so cheap or so dear, so the unit is wrong."""
_OUTPUT: Final = 10
"""The factor by which no vendor's input is dearer than its output."""
_PER_DOLLAR: Final = {
    code: per_dollar
    for per_dollar, codes in (
        (1, "USD EUR GBP CHF CAD AUD NZD SGD USDC USDT"),
        (10, "AED BRL CNY RMB DKK HKD ILS MXN MYR NOK PLN QAR RON SAR SEK ZAR"),
        (50, "CZK EGP INR PHP RUB THB TRY TWD UAH"),
        (300, "HUF JPY KES KZT PKR"),
        (1000, "ARS CLP COP KRW NGN"),
        (20_000, "IDR VND"),
    )
    for code in codes.split()
}
"""About how many units of a currency make a dollar. The worth of others, and of labels, is unknown."""
_PER_TOKEN: Final = (
    (10**6, "if that is per {}"),
    (10**3, "if that is per thousand {}s"),
    (Decimal("0.01"), "if that is in hundredths"),
    (Decimal("0.000002"), "if that is new-api's quota"),
    (Decimal("0.000001"), "if that is in millionths"),
    (Decimal("0.000000001"), "if that is in billionths"),
)
"""Other ways to write the price of a million tokens, by what they have to be multiplied with."""
_PER_USE: Final[Mapping[str, Sequence[tuple[int | Decimal, str]]]] = {
    "minute": ((60, "if that is per second"), (Decimal(1) / 60, "if that is per hour")),
    "web_search": ((1000, "if that is per search"),),
    "": ((Decimal("0.001"), "if that is per thousand"),),
}
"""The same of other amounts."""


def judge_model(place: Place, raw: Mapping[str, object], model: Model, currency: str) -> list[str]:
    """Return what is doubtful in a model's prices. Raises ConfigError for what cannot be meant."""
    told = {name: raw.get(name, SETTINGS["models.ID"][name].default) for name in TOLD}
    found = [*_list_doubts(place, told, model.unit, currency)]
    if refused := [str(error) for error, is_refused in found if is_refused]:
        raise ConfigError(*refused)
    return [str(error).removeprefix(f"{place.file}: ") for error, _ in found]


def _list_doubts(
    place: Place, told: Mapping[str, object], unit: str, currency: str
) -> Iterator[tuple[ConfigError, bool]]:
    """Yield each doubt about a model's prices and costs, which are well formed, and whether it is refused."""
    tables = [*_list_tables(told)]
    if any(table.get("sure") for _, table in tables):
        return
    for where, table in tables:
        amounts = {
            name: Decimal(value)
            for name, value in table.items()
            if isinstance(value, int | Decimal) and name not in ("sure", "reported") and value
        }
        prices = _Prices(amounts, unit, _PER_DOLLAR.get(currency.upper()))
        found = [*prices.judge()]
        if "output" in table and prices.has_little_output:
            found.append(("output is less than a tenth of input, which no vendor asks", False))
        key = "it" if "image" in where else "`cost`" if "cost" in where else "`price`"
        for words, is_far in found:
            yield place.error(where, f"{words}; if meant, add sure = true to {key}"), is_far


def judge_dollars(amounts: Mapping[str, Decimal]) -> str:
    """Return what is wrong with prices in dollars that are refused without `sure = true`; "" if nothing is.

    It tells what was probably meant, if that is known.
    """
    prices = _Prices({name: one for name, one in amounts.items() if one}, "token", 1)
    return next((words for words, is_far in prices.judge() if is_far), "")


def _list_tables(told: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, object]]]:
    """Yield each table of amounts, and its place within the model."""
    for key in ("price", "cost"):
        if isinstance(told[key], dict):
            yield key, told[key]
        for number, rule in enumerate(told[f"{key}_when"]):
            yield f"{key}_when[{number}].{key}", rule[key]
        yield f"tool_{key}s", told[f"tool_{key}s"]
    for number, row in enumerate(told["price_image"] or ()):
        yield f"price_image[{number}]", row


@dataclass(frozen=True, slots=True)
class _Prices:
    """The amounts of one table, without zeros."""

    amounts: Mapping[str, Decimal]
    unit: str
    """The unit of a model's input."""
    per_dollar: int | None
    """None if the currency is a label."""

    @property
    def has_little_output(self) -> bool:
        return self.amounts.get("input", 0) > self.amounts.get("output", 0) * _OUTPUT

    def judge(self) -> Iterator[tuple[str, bool]]:
        """Yield what is out of range, and whether it is so by far."""
        for sign, words in ((-1, "below"), (1, "above")):
            off = {name: self._find_times(name, one, sign) for name, one in self.amounts.items()}
            names = [name for name in off if off[name] > (_BELOW if sign < 0 else _ABOVE)]
            if names:
                named = ", ".join(f"{name} {_show(self.amounts[name])}" for name in names)
                per = f" for a million {self.unit}s" if names[0] in _TOKENS else ""
                meant = "".join(f"; {one}" for one in self._list_meant(names[0], sign))
                told = f"{named}: far {words} what any vendor asks{per}{meant}"
                # A price too low is refused for tokens only: searches and calls may cost next to nothing.
                yield (
                    told,
                    any(off[one] > _REFUSED and (sign > 0 or one in _TOKENS) for one in names),
                )

    def _find_times(self, name: str, amount: Decimal, sign: int) -> Decimal:
        """Return how many times an amount is below the least, or above the most, of what vendors ask."""
        least, most = (
            Decimal(one) * (self.per_dollar or 1) for one in _ASKED.get(name, _ASKED[""])
        )
        if sign < 0:
            return least / amount
        return amount / most if self.per_dollar else Decimal(0)

    def _list_meant(self, name: str, sign: int) -> Iterator[str]:
        """Yield what to write if the amounts are of another unit, and would be in range."""
        is_token = name in _TOKENS
        names = [one for one in self.amounts if is_token and one in _TOKENS] or [name]
        for times, words in _PER_TOKEN if is_token else _PER_USE.get(name, _PER_USE[""]):
            meant = {one: self.amounts[one] * times for one in names}
            if (times > 1) == (sign < 0) and all(
                max(self._find_times(one, amount, side) for side in (-1, 1)) <= 1
                for one, amount in meant.items()
            ):
                table = ", ".join(f"{one} = {_show(amount)}" for one, amount in meant.items())
                yield f"{words.format(self.unit)}, write {{ {table} }}"


def _show(amount: Decimal) -> str:
    return format_amount(int(amount * NANO))
