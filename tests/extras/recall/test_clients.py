"""Clients by their defaults, which count on a server that stores, in loops of several turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.loop import check_printed
from tests.agents.market import Market
from tests.clients import kit
from tests.extras.recall.conftest import REASONS, VENDORS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(360)]


@pytest.mark.parametrize(
    ("script", "model", "more"),
    [
        ("vercel_tools.mjs", "{}/0", {"OPTIONS": "{}"}),
        ("vercel_tools.mjs", "{}/0", {"OPTIONS": '{"reasoningEffort": "high"}'}),
        ("agents.txt", "openai/{}/0", {"RUN": '{"auto_previous_response_id": true}'}),
        ("agent_framework.txt", "{}/0", {}),
        ("agno.txt", f"{REASONS}{{}}/0", {"API": "responses"}),
    ],
)
async def test_an_sdk_by_its_defaults(
    market: Market, tmp_path: Path, script: str, model: str, more: dict[str, str]
) -> None:
    gateway, key, called = market.gateway, market.key, " ".join(map(model.format, VENDORS))
    check_printed(await kit.run_script(script, tmp_path, gateway, key, called, **more))
    assert market.refusals == []
    assert market.recalled == [0, 1, 2] * 2 * len(VENDORS)
