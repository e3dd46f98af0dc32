"""Clients as people install them, in loops of several turns over vendors that want something back."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.agents.loop import check_printed
from tests.agents.market import Market
from tests.clients import kit
from tests.clients.test_codex import ask

pytestmark = [pytest.mark.slow, pytest.mark.timeout(360)]

VENDORS: Final = ("claude-budget", "gemini", "deepseek", "openai-responses")
THINKS: Final = 'model_reasoning_effort = "high"\n'
"""Codex' setting, which it does not choose itself for a model that it does not know."""


@pytest.mark.parametrize(
    ("script", "model", "more"),
    [
        ("vercel_tools.mjs", "{}/0", {"OPTIONS": '{"store": false}'}),
        ("agents.txt", "openai/{}/0", {}),
        ("agno.txt", "{}/0", {"API": "chat"}),
        ("pi_tools.mjs", "{}/0", {}),
    ],
)
async def test_an_sdk(
    market: Market, tmp_path: Path, script: str, model: str, more: dict[str, str]
) -> None:
    """Vercel's, OpenAI's for agents, Agno, and pi. A process takes seconds to start, so one asks all vendors."""
    gateway, key, called = market.gateway, market.key, " ".join(map(model.format, VENDORS))
    check_printed(await kit.run_script(script, tmp_path, gateway, key, called, **more))
    assert market.refusals == []
    assert {one.vendor for one in market.visits} == {*VENDORS}


async def test_vercel_by_its_defaults(market: Market, tmp_path: Path) -> None:
    """The refusal names the SDK's own setting."""
    place = market.gateway, market.key, "plain/0"
    out = await kit.run_script("vercel_tools.mjs", tmp_path, *place, OPTIONS="{}")
    assert "FAILED" in out, out
    assert "providerOptions.openai.store" in out, out


@pytest.mark.parametrize("name", VENDORS)
async def test_codex(market: Market, tmp_path: Path, name: str) -> None:
    told = await ask(market.gateway, market.key, tmp_path, f"{name}/0", THINKS)
    assert told.code == 0, told.out
    assert market.refusals == []
    assert market.recalled == [0, 1, 2]
    assert "sunny in Bergen" in told.out, told.out


@pytest.mark.parametrize("name", ["claude-adaptive", "gemini", "deepseek", "openai-responses"])
async def test_claude_code(market: Market, tmp_path: Path, name: str) -> None:
    """It takes a model that it does not know for a new one, which thinks adaptively."""
    claude = kit.find("node_modules", ".bin", "claude")
    model = f"{name}/0"
    environment = {
        "ANTHROPIC_BASE_URL": market.gateway.root_url,
        "ANTHROPIC_AUTH_TOKEN": market.key,
        "ANTHROPIC_MODEL": model,
        "ANTHROPIC_DEFAULT_HAIKU_MODEL": model,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    }
    words = (claude, "-p", "How is the weather?", "--allowedTools", "Bash(echo:*)")
    told = await kit.run(words, tmp_path, environment)
    assert told.code == 0, told.out
    assert market.refusals == []
    assert max(market.recalled) == 2
    assert "sunny in Bergen" in told.out, told.out
