"""LiteLLM's map of models, whose prices are per token."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.config import show
from gateway.price_lists.matching import find_name
from gateway.price_lists.records import Listed, read_amount, stack_tiers

PROVIDER: Final = "litellm_provider"
_PRICES: Final = {
    "input": ("input_cost_per_token", 6),
    "cached_input": ("cache_read_input_token_cost", 6),
    "cache_write": ("cache_creation_input_token_cost", 6),
    "cache_write_1h": ("cache_creation_input_token_cost_above_1hr", 6),
    "output": ("output_cost_per_token", 6),
    "request": ("input_cost_per_request", 0),
}
"""The list's name of each price, and the power of ten that makes it one of ours."""
_OURS: Final = {theirs: (ours, power) for ours, (theirs, power) in _PRICES.items()}
_ABOVE: Final = re.compile(r"(.+)_above_(\d{1,6})k_tokens")
_RANGES: Final = "tiered_pricing"
_SEARCHES: Final = "search_context_cost_per_query"


class LitellmPrices:
    """A `PriceFile`."""

    format = "LiteLLM"

    def __init__(self, file: str, raw: Mapping[str, object]) -> None:
        self._file = file
        self._models = {name: one for name, one in raw.items() if isinstance(one, dict)}

    def find(self, provider: str, model: str) -> Listed | None:
        """Find a model by its name, with or without the provider's in front."""
        prefix = f"{provider}/"
        models = {
            name.removeprefix(prefix): name
            for name, one in self._models.items()
            if one.get(PROVIDER) == provider
        }
        name = find_name(models, model)
        return None if name is None else self._read(models[name])

    def _read(self, name: str) -> Listed:
        where, raw = f"{self._file}: {show(name)}", self._models[name]
        base: dict[str, int] = {}
        steps: dict[int, dict[str, int]] = {}
        for key, value in raw.items():
            found = _ABOVE.fullmatch(key)
            named = _OURS.get(found[1] if found else key)
            if named is None or value is None:
                continue
            amounts = steps.setdefault(int(found[2]) * 1000, {}) if found else base
            amounts[named[0]] = read_amount(value, f"{where}: {key}", power=named[1])
        notes = _add_searches(base, raw.get(_SEARCHES), f"{where}: {_SEARCHES}")
        if raw.get(_RANGES):
            return Listed(name, base, None, (*notes, "the list prices ranges of input"))
        return Listed(name, base, stack_tiers(base, steps), notes)


def _add_searches(base: dict[str, int], raw: object, where: str) -> tuple[str, ...]:
    """Add the price of a thousand searches, if they have one whatever their size."""
    prices = {
        read_amount(one, where, power=3) for one in (raw.values() if isinstance(raw, dict) else ())
    }
    if len(prices) > 1:
        return ("the list prices web searches by their size",)
    if prices:
        base["web_search"] = prices.pop()
    return ()
