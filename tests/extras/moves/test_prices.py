"""The prices of other gateways, as `adopt` writes them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from gateway.config.values import MAX_TOKENS
from gateway.extras.moves import litellm, new_api
from gateway.extras.moves.draft import Draft
from tests.support.rows import each_row


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
