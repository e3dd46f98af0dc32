"""The Vercel AI SDK: its default OpenAI provider uses the Responses API."""

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
import { generateText, streamText, tool, stepCountIs } from "ai";
import { createOpenAI } from "@ai-sdk/openai";
import { z } from "zod";

const openai = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY });
const options = {
  model: openai(process.env.MODEL),
  prompt: "Weather in Köln?",
  maxRetries: 0,
  stopWhen: stepCountIs(3),
  providerOptions: { openai: { store: false } },
  tools: {
    weather: tool({
      description: "Tell the weather.",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => `sunny in ${city}`,
    }),
  },
};
console.log("TOLD", (await generateText(options)).text);
const streamed = streamText(options);
console.log("STREAMED", await streamed.text);
"""


@each_provider
async def test_a_tool_loop(stage: Stage, tmp_path: Path, provider: Provider) -> None:
    modules = kit.find("node_modules", "@ai-sdk", "openai").parents[1]
    (tmp_path / "node_modules").symlink_to(modules)
    script = tmp_path / "weather.mjs"
    script.write_text(SCRIPT, encoding="utf-8")
    called = Told(calls=[ToolCall("call_1", "weather", {"city": "Köln"})], finish="tool_calls")
    final = Told("It is sunny.")
    stage.alpha.play(
        provider.reply(called),
        provider.reply(final),
        provider.stream(called),
        provider.stream(final),
    )
    environment = {
        "KEY": stage.key,
        "BASE_URL": stage.gateway.base_url,
        "MODEL": stage.fresh(provider.kind),
    }
    told = await kit.run(("node", script), tmp_path, environment)
    assert told.code == 0, told.out
    assert "TOLD It is sunny." in told.out
    assert "STREAMED It is sunny." in told.out
    assert "sunny in Köln" in stage.alpha.last.body.decode()
