"""The list of models in the messages dialect: its pages."""

from __future__ import annotations

import pytest

from gateway.dialects import CALLERS, ListedModel
from gateway.errors import BadRequest

MODELS = [ListedModel(f"m{number}", "vendor", 0, 1, 1) for number in range(1001)]


def test_a_page_has_20_models_and_at_most_1000() -> None:
    messages = CALLERS["messages"]
    assert len(messages.list_models(MODELS, {})["data"]) == 20
    page = messages.list_models(MODELS, {"limit": ["1000"]})
    assert (len(page["data"]), page["has_more"], page["last_id"]) == (1000, True, "m999")
    with pytest.raises(BadRequest):
        messages.list_models(MODELS, {"limit": ["1001"]})
