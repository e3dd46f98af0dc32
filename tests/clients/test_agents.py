"""OpenAI's Agents SDK, which uses the Responses API unless told otherwise."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients import kit
from tests.clients.test_codex import each_provider
from tests.support.pairs import Provider
from tests.support.stage import Stage
from tests.support.told import Told, ToolCall

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

SCRIPT = """
import asyncio, os
from agents import Agent, Runner, function_tool, set_tracing_disabled

@function_tool
def weather(city: str) -> str:
    "Tell the weather."
    return f"sunny in {city}"

async def main():
    set_tracing_disabled(True)
    agent = Agent("Helper", instructions="Be brief.", tools=[weather], model=os.environ["MODEL"])
    result = await Runner.run(agent, "Weather in Köln?")
    print("TOLD", result.final_output)
    streamed = Runner.run_streamed(agent, "Weather in Köln?")
    async for _ in streamed.stream_events():
        pass
    print("STREAMED", streamed.final_output)

asyncio.run(main())
"""


@each_provider
async def test_a_tool_loop(stage: Stage, tmp_path: Path, provider: Provider) -> None:
    called = Told(calls=[ToolCall("call_1", "weather", {"city": "Köln"})], finish="tool_calls")
    final = Told("It is sunny.")
    stage.alpha.play(
        provider.reply(called),
        provider.reply(final),
        provider.stream(called),
        provider.stream(final),
    )
    environment = {
        "OPENAI_API_KEY": stage.key,
        "OPENAI_BASE_URL": stage.gateway.base_url,
        "MODEL": stage.fresh(provider.kind),
    }
    if "/" in environment["MODEL"]:  # the SDK takes what is before a slash for a provider's name
        environment["MODEL"] = "openai/" + environment["MODEL"]
    out = await kit.run_python(SCRIPT, tmp_path, environment)
    assert "TOLD It is sunny." in out
    assert "STREAMED It is sunny." in out
    assert "sunny in Köln" in stage.alpha.last.body.decode()
