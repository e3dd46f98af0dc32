"""Reads genai-prices' list, an array of providers, each with its models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import date
from typing import Final

from gateway.config.reader import show
from gateway.extras.price_lists.entries import (
    Listed,
    PriceListError,
    find_name,
    read_amount,
    stack_tiers,
)

Json = Mapping[str, object]

_PRICES: Final = {
    "input": ("input_mtok", 0),
    "cached_input": ("cache_read_mtok", 0),
    "cache_write": ("cache_write_mtok", 0),
    "cache_write_1h": ("cache_write_1h_mtok", 0),
    "output": ("output_mtok", 0),
    "request": ("requests_kcount", -3),
    "web_search": ("web_searches_kcount", 0),
}
"""The list's name of each price, and the power of ten from its unit to ours."""


class GenaiPrices:
    """A list of providers, each with its models."""

    format: Final = "genai"
    """The name of its format among `Names`."""

    def __init__(self, file: str, raw: list[object], today: date) -> None:
        self._file = file
        self._providers = [one for one in raw if isinstance(one, dict)]
        self._today = today

    def find(self, provider: str, model: str) -> Listed | None:
        """Find a model by its id, or by a whole name in its `match`.

        Raises PriceListError if its entry is malformed.
        """
        models: dict[str, Json] = {}
        for one in self._providers:
            listed = one.get("models")
            if one.get("id") == provider and isinstance(listed, list):
                for entry in listed:
                    for name in _name(entry):  # the first entry of a name counts
                        models.setdefault(name, entry)
        found = find_name(models, model)
        return None if found is None else self._read(f"{provider}/{found}", models[found])

    def _read(self, name: str, model: Json) -> Listed:
        where = f"{self._file}: {show(name)}"
        prices, notes = self._choose(where, model.get("prices"))
        base: dict[str, int] = {}
        steps: dict[int, dict[str, int]] = {}
        for ours, (theirs, power) in _PRICES.items():
            value = prices.get(theirs)
            if value is None:
                continue
            at = f"{where}: {theirs}"
            if not isinstance(value, dict):
                base[ours] = read_amount(value, at, power=power)
                continue
            base[ours] = read_amount(value.get("base"), f"{at}.base", power=power)
            for start, amount in _list_tiers(value, at):
                steps.setdefault(start, {})[ours] = read_amount(amount, at, power=power)
        return Listed(name, base, stack_tiers(base, steps), notes)

    def _choose(self, where: str, prices: object) -> tuple[Json, tuple[str, ...]]:
        """Choose today's prices: the last entry whose starting date has come."""
        if isinstance(prices, dict):
            return prices, ()
        chosen: Json | None = None
        notes: list[str] = []
        for one in prices if isinstance(prices, list) else ():
            inner = one.get("prices") if isinstance(one, dict) else None
            if not isinstance(inner, dict):
                break
            constraint = one.get("constraint") or {}
            start = constraint.get("start_date") if isinstance(constraint, dict) else constraint
            if constraint and start is None:
                notes.append("the list has other prices at some times of the day")
            elif start is None or _read_date(start, where) <= self._today:
                chosen = inner
            else:
                notes.append(f"the list has other prices from {_read_date(start, where)} on")
        if chosen is None:
            raise PriceListError(f'{where}: "prices" must be a table, or an array of tables')
        return chosen, tuple(dict.fromkeys(notes))


def _name(entry: object) -> Iterator[str]:
    if isinstance(entry, dict) and isinstance(identity := entry.get("id"), str):
        yield identity
        match = entry.get("match")
        clauses = match.get("or", [match]) if isinstance(match, dict) else []
        for clause in clauses if isinstance(clauses, list) else []:
            if isinstance(clause, dict) and isinstance(equals := clause.get("equals"), str):
                yield equals


def _list_tiers(value: Json, where: str) -> Iterator[tuple[int, object]]:
    tiers = value.get("tiers")
    for tier in tiers if isinstance(tiers, list) else [tiers]:
        start = tier.get("start") if isinstance(tier, dict) else None
        if not isinstance(tier, dict) or type(start) is not int or start < 0:
            raise PriceListError(
                f'{where}: each of "tiers" must have a whole "start" and a "price"'
            )
        yield start, tier.get("price")


def _read_date(value: object, where: str) -> date:
    try:
        return date.fromisoformat(str(value)[:10])
    except ValueError as error:
        raise PriceListError(f"{where}: start_date must be a date, not {show(value)}") from error
