"""Clients as people install them, in loops of several turns over vendors that want something back."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.agents.loop import LEARNED
from tests.agents.market import Market
from tests.clients import kit
from tests.clients.test_codex import ask
from tests.clients.test_sdks import AGENTS

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

each_vendor = pytest.mark.parametrize(
    "name", ["claude-budget", "gemini", "deepseek", "openai-responses"]
)
THINKS: Final = 'model_reasoning_effort = "high"\n'
"""Codex' setting, which it does not choose itself for a model that it does not know."""


async def run_vercel(market: Market, folder: Path, name: str, options: str) -> str:
    environment = {
        "KEY": market.key,
        "BASE_URL": market.gateway.base_url,
        "MODEL": f"{name}/0",
        "OPTIONS": options,
    }
    return await kit.run_node(kit.read("vercel_tools"), folder, environment)


@each_vendor
async def test_vercel(market: Market, tmp_path: Path, name: str) -> None:
    out = await run_vercel(market, tmp_path, name, '{"store": false}')
    assert f"TOLD {LEARNED}" in out, out
    assert f"STREAMED {LEARNED}" in out, out
    assert market.refusals == []


async def test_vercel_by_its_defaults(market: Market, tmp_path: Path) -> None:
    """The refusal names the SDK's own setting."""
    out = await run_vercel(market, tmp_path, "plain", "{}")
    assert "FAILED" in out, out
    assert "providerOptions.openai.store" in out, out


@each_vendor
async def test_the_agents_sdk(market: Market, tmp_path: Path, name: str) -> None:
    environment = {
        "OPENAI_API_KEY": market.key,
        "OPENAI_BASE_URL": market.gateway.base_url,
        "MODEL": f"openai/{name}/0",
    }
    out = await kit.run_python(AGENTS, tmp_path, environment)
    assert f"TOLD {LEARNED}" in out, out
    assert f"STREAMED {LEARNED}" in out, out
    assert market.refusals == []


@each_vendor
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
