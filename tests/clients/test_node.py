"""OpenAI's SDK for Node: responses in each of its ways, and embeddings, whose base64 it decodes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

import pytest

from tests.clients import kit
from tests.clients.test_codex import each_provider
from tests.support.embeddings import VECTORS, embeddings, round_trip
from tests.support.pairs import Provider
from tests.support.replies import json_reply, sse_reply
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.told import Told

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CLIENT: Final = """
import OpenAI from "openai";
import { zodTextFormat } from "openai/helpers/zod";
import { z } from "zod";

const model = process.env.MODEL;
const client = new OpenAI({ baseURL: process.env.BASE_URL, apiKey: process.env.KEY, maxRetries: 0 });
"""
RESPONSES: Final = """
const asked = { model, input: "Weather in Köln?", store: false };
console.log("TOLD", (await client.responses.create(asked)).output_text);
const format = zodTextFormat(z.object({ city: z.string() }), "place");
const parsed = await client.responses.parse({ ...asked, text: { format } });
console.log("PARSED", parsed.output_parsed.city);
let text = "", next = 0;
for await (const event of await client.responses.create({ ...asked, stream: true })) {
  if (event.sequence_number !== next++) throw new Error(`a gap before ${next}`);
  if (event.type === "response.output_text.delta") text += event.delta;
}
console.log("STREAMED", text);
const helper = client.responses.stream({ ...asked, text: { format } });
console.log("HELPED", (await helper.finalResponse()).output_parsed.city);
"""
EMBEDDINGS: Final = """
const texts = await client.embeddings.create({ model, input: ["one", "two"] });
const floats = await client.embeddings.create({ model, input: [[1], [2]], encoding_format: "float" });
console.log("MADE", JSON.stringify([texts, floats].map((one) => one.data.map((each) => each.embedding))));
"""
TRANSCRIPT: Final = """
import { toFile } from "openai";
const file = await toFile(Buffer.alloc(600000, 7), "a.mp3");
const made = await client.audio.transcriptions.create({ model, file, language: "de" });
console.log("HEARD", made.text, made.usage.seconds);
const stream = await client.audio.transcriptions.create({ model, file, stream: true });
for await (const event of stream) console.log(event.type);
"""


def write_environment(stage: Stage, kind: str) -> dict[str, str]:
    return {"KEY": stage.key, "BASE_URL": stage.gateway.base_url, "MODEL": stage.fresh(kind)}


@each_provider
async def test_responses(stage: Stage, tmp_path: Path, provider: Provider) -> None:
    plain, place = Told("It is sunny."), Told('{"city": "Köln"}')
    stage.alpha.play(
        provider.reply(plain), provider.reply(place), provider.stream(plain), provider.stream(place)
    )
    environment = write_environment(stage, provider.kind)
    out = await kit.run_node(CLIENT + RESPONSES, tmp_path, environment)
    told = dict(line.split(" ", 1) for line in out.splitlines())
    assert told == {"TOLD": plain.text, "PARSED": "Köln", "STREAMED": plain.text, "HELPED": "Köln"}


@each_row("kind", ["embed", "embed-floats"])
async def test_embeddings(stage: Stage, tmp_path: Path, kind: str) -> None:
    stage.alpha.play(json_reply(embeddings(packed=kind == "embed")), json_reply(embeddings()))
    out = await kit.run_node(CLIENT + EMBEDDINGS, tmp_path, write_environment(stage, kind))
    texts, floats = json.loads(out.rpartition("MADE ")[2])
    assert [tuple(one) for one in texts] == [*map(round_trip, VECTORS)]
    assert [tuple(one) for one in floats] == [*VECTORS]


async def test_a_transcript(stage: Stage, tmp_path: Path) -> None:
    told = {"text": "Hallo.", "usage": {"type": "duration", "seconds": 9}}
    delta = {"type": "transcript.text.delta", "delta": "Hallo."}
    done = {"type": "transcript.text.done", **told}
    stage.alpha.play(json_reply(told), sse_reply([delta, done], done=False))
    out = await kit.run_node(CLIENT + TRANSCRIPT, tmp_path, write_environment(stage, "hearing"))
    assert out.split() == ["HEARD", "Hallo.", "9", delta["type"], done["type"]]
    for one in stage.alpha.exchanges:
        assert bytes([7]) * 600_000 in one.body
