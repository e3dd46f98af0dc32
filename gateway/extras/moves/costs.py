"""The prices and limits of a deployment in LiteLLM's config.yaml, as those of a model here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from gateway.base.money import MILLION
from gateway.config.values import MAX_TOKENS
from gateway.dialects.wire.records import DEFAULT_KIND
from gateway.extras.moves.draft import Draft, DraftModel, round_price
from gateway.extras.moves.known import AUDIO, COMPLETION, EMBEDDING, IMAGE, RERANK, find_known
from gateway.extras.moves.sources import Json, read_decimal

_PRICES: Final = {
    "input_cost_per_token": ("input", MILLION),
    "output_cost_per_token": ("output", MILLION),
    "cache_read_input_token_cost": ("cached_input", MILLION),
    "cache_creation_input_token_cost": ("cache_write", MILLION),
    "cache_creation_input_token_cost_above_1hr": ("cache_write_1h", MILLION),
    "input_cost_per_audio_token": ("audio_input", MILLION),
    "output_cost_per_audio_token": ("audio_output", MILLION),
    "input_cost_per_character": ("input", MILLION),
    "input_cost_per_query": ("request", 1),
    "input_cost_per_request": ("request", 1),
    "output_cost_per_image": ("image", 1),
    "input_cost_per_image": ("image", 1),
    "input_cost_per_second": ("minute", 60),
}
"""The name of each price in gateway.toml, and the factor to its unit there."""
_ABOVE: Final = re.compile(r"(.+)_above_(\d{1,6})k_tokens")
_ALONE: Final = {IMAGE: "image", AUDIO: "minute"}
"""The price that replaces all others, by kind of model."""
_UNTOLD: Final = "is not told, so nothing is charged for it there: here it is the list price, or 0"


def is_price(key: object) -> bool:
    return _find_price(key) is not None


def read_details(draft: Draft, name: str, model: DraftModel, told: Json) -> None:
    """Take the prices and limits that a deployment states."""
    model.max_output = _read_count(draft, name, "max_output_tokens", told)
    model.max_input = _read_count(draft, name, "max_input_tokens", told)
    found = _read_prices(draft, name, model.kind, told)
    prices = found.pop(0, {})
    if model.kind in (DEFAULT_KIND, COMPLETION):
        _complete(draft, name, model, prices)
    # Zeros make a model free only if one is the price of something that every call has.
    if any(prices.values()) or prices.keys() & {"input", "request", "minute", "image"}:
        model.price = prices
        model.rules = {above: {**prices, **found[above]} for above in sorted(found)}


def _find_price(key: object) -> tuple[str, int, int] | None:
    """Return a price's name in gateway.toml, the factor to its unit, and the input above which it applies."""
    found = _ABOVE.fullmatch(key) if isinstance(key, str) else None
    named = _PRICES.get(found[1] if found else str(key))
    return named and (*named, int(found[2]) * 1000 if found else 0)


def _read_prices(draft: Draft, name: str, kind: str, told: Json) -> dict[int, dict[str, Decimal]]:
    """Return the prices that a model of this kind can have, by the tokens of input above which they apply."""
    found: dict[int, dict[str, Decimal]] = {}
    unused = {}
    is_alone = any(
        price[0] == _ALONE.get(kind) and read_decimal(value) is not None
        for key, value in told.items()
        if (price := _find_price(key))
    )
    for key, value in told.items():
        if (price := _find_price(key)) is None or value is None:
            continue
        ours, times, above = price
        amount = read_decimal(value)
        if amount is None:
            draft.note(key, "is no number", name)
        elif not _has_price(kind, ours, is_alone=is_alone) or ours in found.get(above, {}):
            unused[key] = amount
        else:
            found.setdefault(above, {})[ours] = round_price(amount * times)
    for key in filter(unused.get, unused):
        why = f"a model of kind {kind} has no such price here, or another one in its place"
        draft.note(key, why, name)
    return found


def _has_price(kind: str, price: str, *, is_alone: bool) -> bool:
    if price in _ALONE.values() or is_alone:
        return price == _ALONE.get(kind)
    return not (price == "output" and kind in (EMBEDDING, RERANK))


def _complete(draft: Draft, name: str, model: DraftModel, prices: dict[str, Decimal]) -> None:
    """Add list prices to a price that is stated only in part: the rest would be free."""
    if not prices or prices.get("request"):
        return
    known = next((one for word in model.names if (one := find_known(word))), None)
    listed: Mapping[str, Decimal] = known.prices if known else {}
    missing = [part for part in ("input", "output") if part not in prices]
    for part in missing:
        draft.note(f"the price of {part}", _UNTOLD, name)
        prices[part] = listed.get(part, Decimal(0))
    if missing and not (prices["input"] or prices["output"]):
        prices.clear()
    elif (prices["input"], prices["output"]) == (listed.get("input"), listed.get("output")):
        prices.update({part: one for part, one in listed.items() if part not in prices})


def _read_count(draft: Draft, name: str, key: str, told: Json) -> int | None:
    """Read a number of tokens that gateway.toml takes; None for others."""
    count = read_decimal(told.get(key), MAX_TOKENS + 1)
    if count and count == int(count):
        return int(count)
    if told.get(key) is not None:
        draft.note(key, f"is no whole number from 1 to {MAX_TOKENS}", name)
    return None
