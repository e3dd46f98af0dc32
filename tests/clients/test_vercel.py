"""The Vercel AI SDK: its default OpenAI provider uses the Responses API."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.clients import kit
from tests.clients.test_codex import each_provider
from tests.support.embeddings import VECTORS, embeddings
from tests.support.pairs import Provider
from tests.support.replies import json_reply
from tests.support.rows import each_row
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
  prompt: "How is the weather?",
  maxRetries: 0,
  stopWhen: stepCountIs(5),
  providerOptions: { openai: JSON.parse(process.env.OPTIONS) },
  tools: {
    weather: tool({
      description: "Tell the weather.",
      inputSchema: z.object({ city: z.string() }),
      execute: async ({ city }) => `sunny in ${city}`,
    }),
  },
};
try {
  console.log("TOLD", (await generateText(options)).text);
  console.log("STREAMED", await streamText(options).text);
} catch (error) {
  console.log("FAILED", error.message);
}
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
        "KEY": stage.key,
        "BASE_URL": stage.gateway.base_url,
        "MODEL": stage.fresh(provider.kind),
        "OPTIONS": '{"store": false}',
    }
    out = await kit.run_node(SCRIPT, tmp_path, environment)
    assert "TOLD It is sunny." in out
    assert "STREAMED It is sunny." in out
    assert "sunny in Köln" in stage.alpha.last.body.decode()


EMBEDDINGS = """
import { embed, embedMany } from "ai";
import { createOpenAI } from "@ai-sdk/openai";

const openai = createOpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY });
const model = openai.embedding(process.env.MODEL);
const { embedding } = await embed({ model, value: "one", maxRetries: 0 });
const { embeddings, usage } = await embedMany({ model, values: ["one", "two"], maxRetries: 0 });
console.log("MADE", JSON.stringify({ embedding, embeddings, usage }));
"""


@each_row("kind", ["embed", "embed-responses"])
async def test_embeddings(stage: Stage, tmp_path: Path, kind: str) -> None:
    stage.alpha.play(json_reply(embeddings(VECTORS[:1])), json_reply(embeddings()))
    environment = {"KEY": stage.key, "BASE_URL": stage.gateway.base_url, "MODEL": stage.fresh(kind)}
    out = await kit.run_node(EMBEDDINGS, tmp_path, environment)
    made = json.loads(out.rpartition("MADE ")[2])
    vectors = [[*one] for one in VECTORS]
    assert made == {"embedding": vectors[0], "embeddings": vectors, "usage": {"tokens": 11}}
