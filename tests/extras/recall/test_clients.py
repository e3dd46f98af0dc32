"""Clients by their defaults, which count on a server that stores, in loops of several turns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agents.loop import LEARNED
from tests.agents.market import Market
from tests.clients import kit

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


@pytest.mark.parametrize(
    ("script", "more"),
    [
        ("vercel_tools.mjs", {"OPTIONS": "{}"}),
        ("vercel_tools.mjs", {"OPTIONS": '{"reasoningEffort": "high"}'}),
        ("agents.txt", {"RUN": '{"auto_previous_response_id": true}'}),
    ],
)
@pytest.mark.parametrize("name", ["claude-budget", "deepseek", "openai-responses"])
async def test_an_sdk_by_its_defaults(
    market: Market, tmp_path: Path, name: str, script: str, more: dict[str, str]
) -> None:
    model = f"openai/{name}/0" if script == "agents.txt" else f"{name}/0"
    out = await kit.run_script(script, tmp_path, market.gateway, market.key, model, **more)
    assert f"TOLD {LEARNED}" in out, out
    assert f"STREAMED {LEARNED}" in out, out
    assert market.refusals == []
    assert market.recalled == [0, 1, 2] * 2
