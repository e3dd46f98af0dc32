"""The prices of other gateways, as `adopt` writes them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path

import pytest

from gateway.config.values import MAX_TOKENS
from gateway.extension import find_kinds
from gateway.extras.moves import litellm, new_api
from gateway.extras.moves.costs import _PRICES, is_price
from gateway.extras.moves.draft import Draft
from gateway.extras.moves.known import MODES
from tests.support.fuzz import ALL_EXAMPLES
from tests.support.rows import each_row
from tests.support.settings import load


@each_row(
    ("unit", "price", "is_noted"),
    [
        ("500000", "{ input = 2, output = 8 }", False),
        (1_000_000, "{ input = 1, output = 4 }", False),
        ("5e6", "{ input = 0.2, output = 0.8 }", False),
        ("many", "{ input = 2, output = 8 }", True),
        ("-1", "{ input = 2, output = 8 }", True),
    ],
)
def test_prices_follow_the_units_of_a_dollar(
    tmp_path: Path, unit: object, price: str, *, is_noted: bool
) -> None:
    channel = {"id": 1, "type": 1, "key": "k", "status": 1, "name": "a", "models": "gpt-4.1-x"}
    options = {"ModelRatio": {"gpt-4.1-x": 1}, "CompletionRatio": {"gpt-4.1-x": 4}}
    files = tmp_path / "channels.json", tmp_path / "options.json"
    files[0].write_text(json.dumps({"data": {"items": [channel], "total": 1}}))
    files[1].write_text(json.dumps({**options, "QuotaPerUnit": unit}))
    draft = new_api.adopt(files)
    assert f"price = {price}\n" in draft.write()
    assert any("QuotaPerUnit" in note for note in draft.notes) == is_noted


def adopt(folder: Path, told: Mapping[str, dict[str, object]]) -> Draft:
    """Adopt LiteLLM's models of these names, which are not known, with these facts."""
    models = [
        {"model_name": name, "litellm_params": {"model": "openai/x"}, "model_info": info}
        for name, info in told.items()
    ]
    file = folder / "config.yaml"
    file.write_text(json.dumps({"model_list": models}))
    return litellm.adopt(file, {})


@each_row(
    ("told", "limit"),
    [
        *((1_048_576, 1_048_576), ("1000000", 1_000_000), (MAX_TOKENS, MAX_TOKENS), (1, 1)),
        *((MAX_TOKENS + 1, None), (0, None), (1.5, None), ("many", None)),
    ],
)
def test_limits_are_whole_numbers(tmp_path: Path, told: object, limit: int | None) -> None:
    prices = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    draft = adopt(tmp_path, {"m": {**prices, "max_input_tokens": told}})
    assert draft.models["m"].max_input == limit
    assert any("max_input_tokens" in note for note in draft.notes) == (limit is None)


def draw_details() -> Iterator[dict[str, object]]:
    """Make details of a model of each mode, with each price, each pair of them, and zeros."""
    keys = ["", *_PRICES]
    for mode, first, second, above in product(MODES, keys, keys, (1e-6, 0)):
        prices = {first: 1e-6, second: 1e-6, f"{second}_above_128k_tokens": above}
        yield {"mode": mode, **{key: amount for key, amount in prices.items() if is_price(key)}}


def test_whatever_prices_are_told_check_takes_what_is_written(tmp_path: Path) -> None:
    drawn = [*draw_details()][:: 1 if ALL_EXAMPLES else 7]
    draft = adopt(tmp_path, {f"m{n}": told for n, told in enumerate(drawn)})
    # A provider without its key is off, and its models are read all the same.
    models = load(tmp_path, draft.write()).models
    assert {one.kind for one in models.values()} == find_kinds().keys() & {*MODES.values()}
    assert {*models} < {*draft.models}


@each_row(
    ("told", "missing"),
    [
        ({"mode": "image_generation", "input_cost_per_request": 0.04}, "input and output"),
        ({"mode": "audio_speech", "input_cost_per_request": 0.04}, "input"),
        ({"mode": "audio_transcription", "input_cost_per_audio_token": 1e-6}, "input"),
    ],
)
def test_a_price_that_lacks_an_amount_is_a_comment(
    tmp_path: Path, told: dict[str, object], missing: str
) -> None:
    for extra in ("audio", "images"):
        pytest.importorskip(f"gateway.extras.{extra}")
    chat: dict[str, object] = {"input_cost_per_token": 1e-6, "output_cost_per_token": 1e-6}
    draft = adopt(tmp_path, {"m": told, "chat": chat})
    assert '\n# [models."m"]\n' in draft.write()
    assert any(f"a price of {missing}, which is not told" in note for note in draft.notes)
