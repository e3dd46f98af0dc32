"""Codex, which speaks the Responses API alone, over providers of all dialects."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.clients import kit
from tests.support.config import Kind
from tests.support.content import Content, ToolCall
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER, Provider
from tests.support.process import GatewayProcess
from tests.support.replies import LAST_CHUNK, chunked, stream_head
from tests.support.rows import each_row
from tests.support.running import Launch
from tests.support.stage import Stage
from tests.support.upstream import End, ScriptedUpstream, Step

pytestmark = [pytest.mark.slow, pytest.mark.timeout(360)]

MODEL_WITH_PATCHES: Final = "gpt-5.5"
"""A model that Codex knows, and offers its custom tool."""
PROVIDERS = [CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER]
each_provider = each_row("provider", PROVIDERS)
CONFIG = """
model = "{model}"
model_provider = "gateway"

[model_providers.gateway]
name = "{name}"
base_url = "{base_url}"
env_key = "GATEWAY_KEY"
wire_api = "responses"
"""


async def ask(
    gateway: GatewayProcess,
    key: str,
    folder: Path,
    model: str,
    settings: str = "",
    *,
    name: str = "Gateway",
) -> kit.Run:
    """Let Codex say hello, with a fresh home and the README's settings."""
    codex = kit.find("node_modules", ".bin", "codex")
    home, work = folder / "codex", folder / "work"
    for one in (home, work):
        one.mkdir(exist_ok=True)
    text = settings + CONFIG.format(model=model, name=name, base_url=gateway.base_url)
    (home / "config.toml").write_text(text, encoding="utf-8")
    free = ("--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox")
    return await kit.run(
        (codex, "exec", *free, "Say hello."), work, {"CODEX_HOME": str(home), "GATEWAY_KEY": key}
    )


@each_provider
@each_row("end", [End.FIN, LAST_CHUNK])
async def test_a_stream_that_fails_is_not_replayed(
    stage: Stage, tmp_path: Path, provider: Provider, end: Step
) -> None:
    """A delivered part is charged; Codex would send the whole turn again up to five times.

    A provider that ends its stream cleanly, but early, is as bad as one that breaks off.
    """
    stage.alpha.exchanges.clear()
    events = provider.events(Content("Hello from afar!"))
    stage.alpha.play([stream_head(), *map(chunked, events[:-3]), end])
    told = await ask(stage.gateway, stage.key, tmp_path, stage.fresh(provider.kind))
    assert told.code != 0
    assert end is LAST_CHUNK or "broke off" in told.out, told.out
    assert len(stage.alpha.exchanges) == 1


async def test_an_empty_balance_is_told_in_our_words(stage: Stage, tmp_path: Path) -> None:
    key = stage.callers["empty"].key
    told = await ask(stage.gateway, key, tmp_path, stage.fresh("plain"))
    assert told.code != 0
    assert "balance is 0.00 USD" in told.out, told.out
    assert stage.alpha.exchanges == []


async def test_a_patch_by_the_custom_tool(
    launch: Launch, alpha: ScriptedUpstream, tmp_path: Path
) -> None:
    """`apply_patch` is a custom tool: over chat a function, which comes back as what it was."""
    running = launch(kinds={"plain": Kind(("alpha",), 1)})
    gateway = running.gateway
    gateway.stop()
    text = gateway.config.read_text(encoding="utf-8")
    gateway.config.write_text(text.replace("plain/0", MODEL_WITH_PATCHES), "utf-8")
    gateway.start()
    patch = "*** Begin Patch\n*** Add File: made.txt\n+Grüße\n*** End Patch\n"
    call = ToolCall("call_k3tq81wz", "apply_patch", {"input": patch})
    first = CHAT_PROVIDER.stream(Content(calls=[call], finish="tool_calls"))
    alpha.play(first, CHAT_PROVIDER.stream(Content("Done.")))
    told = await ask(gateway, running.callers["rich"].key, tmp_path, MODEL_WITH_PATCHES)
    assert told.code == 0, told.out
    assert (tmp_path / "work" / "made.txt").read_text(encoding="utf-8") == "Grüße\n"
    assert "apply_patch" in [one["function"]["name"] for one in alpha.last.json["tools"]]


@each_row("provider", [CHAT_PROVIDER, MESSAGES_PROVIDER])
async def test_a_conversation_is_compacted_and_goes_on(
    stage: Stage, tmp_path: Path, provider: Provider
) -> None:
    """Codex asks a provider named OpenAI for a summary, and sends it in place of what was said."""
    call = ToolCall("call_1", "exec_command", {"cmd": "echo made-$((40+2))"})
    first = Content("I look.", calls=[call], finish="tool_calls")
    summary = Content("The user asked for a lamp.")
    told = [provider.stream(one) for one in (first, summary, Content("On we go."))]
    stage.alpha.play(*told)
    settings = "model_auto_compact_token_limit = 10\n"
    run = await ask(
        stage.gateway, stage.key, tmp_path, stage.fresh(provider.kind), settings, name="OpenAI"
    )
    assert run.code == 0, run.out
    assert "On we go." in run.out
    asked, went_on = (json.dumps(one.json) for one in stage.alpha.exchanges[-2:])
    assert "made-42" in asked
    assert "Write a summary" in asked
    assert "made-42" not in went_on
    assert summary.text in went_on
