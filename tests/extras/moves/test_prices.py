"""The prices of other gateways, as `adopt` writes them."""

from __future__ import annotations

import json
from pathlib import Path

from gateway.extras.moves import new_api
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
