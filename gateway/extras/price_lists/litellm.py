"""Reads LiteLLM's map, a table of models, each with its provider's name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from gateway.config.reader import show
from gateway.extras.price_lists.entries import Listed, find_name, read_amount, stack_tiers

PROVIDER: Final = "litellm_provider"
_OURS: Final = {
    "input_cost_per_token": ("input", 6),
    "cache_read_input_token_cost": ("cached_input", 6),
    "cache_creation_input_token_cost": ("cache_write", 6),
    "cache_creation_input_token_cost_above_1hr": ("cache_write_1h", 6),
    "output_cost_per_token": ("output", 6),
    "input_cost_per_request": ("request", 0),
}
"""Our name of each of the list's prices, and the power of ten from its unit to ours."""
_ABOVE: Final = re.compile(r"(.+)_above_(\d{1,6})k_tokens")
_RANGES: Final = "tiered_pricing"
_SEARCHES: Final = "search_context_cost_per_query"


class LitellmPrices:
    """A table of models, each with its provider's name."""

    format: Final = "litellm"

    def __init__(self, file: str, raw: Mapping[str, object]) -> None:
        self._file = file
        self._models = {name: one for name, one in raw.items() if isinstance(one, dict)}

    def find(self, provider: str, model: str) -> Listed | None:
        """Find a model by its name, with or without the provider's in front.

        Raises PriceListError if its entry is malformed.
        """
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
    """Add the price of a thousand searches, if it is the same for all sizes."""
    prices = {
        read_amount(one, where, power=3) for one in (raw.values() if isinstance(raw, dict) else ())
    }
    if len(prices) > 1:
        return ("the list prices web searches by their size",)
    if prices:
        base["web_search"] = prices.pop()
    return ()
