"""SDKs of others: the vendors' for Node, Vercel's, LangChain, OpenAI's Agents, Cohere's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients import kit
from tests.clients.test_codex import PROVIDERS, each_provider
from tests.support.embeddings import VECTORS, embeddings, round_trip
from tests.support.pairs import Provider
from tests.support.replies import json_reply, sse_reply
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.told import Told, ToolCall

TOOL_LOOP: Final = (
    Told(calls=[ToolCall("call_1", "weather", {"city": "Köln"})], finish="tool_calls"),
    Told("It is sunny."),
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]


def write_environment(stage: Stage, model: str, **more: str) -> dict[str, str]:
    """Name the gateway and the model to a script, and to the SDKs that read OpenAI's variables."""
    address = {"KEY": stage.key, "BASE_URL": stage.gateway.base_url, "MODEL": model}
    of_openai = {"OPENAI_API_KEY": stage.key, "OPENAI_BASE_URL": stage.gateway.base_url}
    return address | of_openai | more


async def run_node(stage: Stage, folder: Path, script: str, kind: str, **more: str) -> str:
    environment = write_environment(stage, stage.fresh(kind), **more)
    return await kit.run_node(kit.read(script), folder, environment)


@each_provider
async def test_openai_responds(stage: Stage, tmp_path: Path, provider: Provider) -> None:
    plain, place = Told("It is sunny."), Told('{"city": "Köln"}')
    stage.alpha.play(
        provider.reply(plain), provider.reply(place), provider.stream(plain), provider.stream(place)
    )
    out = await run_node(stage, tmp_path, "openai_responses", provider.kind)
    told = dict(line.split(" ", 1) for line in out.splitlines())
    assert told == {"TOLD": plain.text, "PARSED": "Köln", "STREAMED": plain.text, "HELPED": "Köln"}


@each_row("kind", ["embed", "embed-floats"])
async def test_openai_embeds(stage: Stage, tmp_path: Path, kind: str) -> None:
    stage.alpha.play(json_reply(embeddings(packed=kind == "embed")), json_reply(embeddings()))
    out = await run_node(stage, tmp_path, "openai_embeddings", kind)
    texts, floats = json.loads(out.rpartition("MADE ")[2])
    assert [tuple(one) for one in texts] == [*map(round_trip, VECTORS)]
    assert [tuple(one) for one in floats] == [*VECTORS]


async def test_a_transcript(stage: Stage, tmp_path: Path) -> None:
    told = {"text": "Hallo.", "usage": {"type": "duration", "seconds": 9}}
    delta = {"type": "transcript.text.delta", "delta": "Hallo."}
    done = {"type": "transcript.text.done", **told}
    stage.alpha.play(json_reply(told), sse_reply([delta, done], done=False))
    out = await run_node(stage, tmp_path, "openai_transcripts", "hearing")
    assert out.split() == ["HEARD", "Hallo.", "9", delta["type"], done["type"]]
    for one in stage.alpha.exchanges:
        assert bytes([7]) * 600_000 in one.body


@each_provider
async def test_vercel_calls_a_tool(stage: Stage, tmp_path: Path, provider: Provider) -> None:
    stage.alpha.play(*map(provider.reply, TOOL_LOOP), *map(provider.stream, TOOL_LOOP))
    options = '{"store": false}'
    out = await run_node(stage, tmp_path, "vercel_tools", provider.kind, OPTIONS=options)
    assert "TOLD It is sunny." in out
    assert "STREAMED It is sunny." in out
    assert "sunny in Köln" in stage.alpha.last.body.decode()


@each_row("kind", ["embed", "embed-responses"])
async def test_vercel_embeds(stage: Stage, tmp_path: Path, kind: str) -> None:
    stage.alpha.play(json_reply(embeddings(VECTORS[:1])), json_reply(embeddings()))
    out = await run_node(stage, tmp_path, "vercel_embeddings", kind)
    made = json.loads(out.rpartition("MADE ")[2])
    vectors = [[*one] for one in VECTORS]
    assert made == {"embedding": vectors[0], "embeddings": vectors, "usage": {"tokens": 11}}


AGENTS = """
import asyncio, os
from agents import Agent, Runner, function_tool, set_tracing_disabled

@function_tool
def weather(city: str) -> str:
    "Tell the weather."
    return f"sunny in {city}"

async def main():
    set_tracing_disabled(True)
    for model in os.environ["MODEL"].split():
        agent = Agent("Helper", instructions="Be brief.", tools=[weather], model=model)
        result = await Runner.run(agent, "Weather in Köln?")
        print("TOLD", result.final_output)
        streamed = Runner.run_streamed(agent, "Weather in Köln?")
        async for _ in streamed.stream_events():
            pass
        print("STREAMED", streamed.final_output)

asyncio.run(main())
"""


async def test_agents_call_a_tool(stage: Stage, tmp_path: Path) -> None:
    """A process takes seconds to start, so one asks all providers."""
    models = []
    for one in PROVIDERS:
        stage.alpha.play(*map(one.reply, TOOL_LOOP), *map(one.stream, TOOL_LOOP))
        model = stage.fresh(one.kind)  # the SDK takes what is before a slash for a provider's name
        models.append(f"openai/{model}" if "/" in model else model)
    environment = write_environment(stage, " ".join(models))
    out = await kit.run_python(AGENTS, tmp_path, environment)
    assert out.count("TOLD It is sunny.") == out.count("STREAMED It is sunny.") == len(PROVIDERS)
    assert all(b"sunny in K" in one.body for one in stage.alpha.exchanges[1::2])


LANGCHAIN: Final = """
import json, os
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

@tool
def weather(city: str) -> str:
    "Tell the weather."
    return f"sunny in {city}"

for model in os.environ["MODEL"].split():
    for uses_responses in (False, True):
        plain = ChatOpenAI(model=model, use_responses_api=uses_responses, max_retries=0)
        chat = plain.bind_tools([weather])
        said = [HumanMessage("Weather in Köln?")]
        first = chat.invoke(said)
        said += [first, *(weather.invoke(call) for call in first.tool_calls)]
        print("TOLD", chat.invoke(said).text)
        print("STREAMED", "".join(chunk.text for chunk in plain.stream("Hello")))
"""
LANGCHAIN_EMBEDS: Final = """
import json, os, tiktoken.model
from langchain_openai import OpenAIEmbeddings

model = os.environ["MODEL"]
tiktoken.model.MODEL_TO_ENCODING[model] = "bytes"
for options in json.loads(os.environ["OPTIONS"]):
    print(json.dumps(OpenAIEmbeddings(model=model, max_retries=0, **options).embed_documents(["Hi", "you"])))
"""
TABLE: Final = """
ENCODING_CONSTRUCTORS = {
    "bytes": lambda: {
        "name": "bytes",
        "pat_str": r".",
        "mergeable_ranks": {bytes([n]): n for n in range(256)},
        "special_tokens": {},
    }
}
"""
"""A table of tokens by tiktoken's own way for plugins: OpenAI's come from the network."""


async def test_langchain_calls_a_tool(stage: Stage, tmp_path: Path) -> None:
    """Over both of OpenAI's APIs."""
    for one in PROVIDERS:
        stage.alpha.play(*[*map(one.reply, TOOL_LOOP), one.stream(TOOL_LOOP[1])] * 2)
    models = " ".join(stage.fresh(one.kind) for one in PROVIDERS)
    out = await kit.run_python(LANGCHAIN, tmp_path, write_environment(stage, models))
    loops = 2 * len(PROVIDERS)
    assert out.count("TOLD It is sunny.") == out.count("STREAMED It is sunny.") == loops
    assert all(b"sunny in K" in one.body for one in stage.alpha.exchanges[1::3])


TEXTS: Final = ["Hi", "you"]
UNCUT: Final = {"check_embedding_ctx_length": False}
OPTIONS: Final[tuple[dict[str, Any], ...]] = (
    {},
    UNCUT,
    {**UNCUT, "model_kwargs": {"encoding_format": "float"}},
)


@each_row("kind", ["embed", "embed-floats"])
async def test_langchain_embeds(stage: Stage, tmp_path: Path, kind: str) -> None:
    """By default it sends tokens of OpenAI's own tables, which mean nothing to other models."""
    table = tmp_path / "tiktoken_ext" / "bytes_table.py"
    table.parent.mkdir()
    table.write_text(TABLE, encoding="utf-8")
    packed = [kind == "embed" and "model_kwargs" not in one for one in OPTIONS]
    stage.alpha.play(*(json_reply(embeddings(packed=one)) for one in packed))
    more = {"OPTIONS": json.dumps(OPTIONS), "PYTHONPATH": str(tmp_path)}
    environment = write_environment(stage, stage.fresh(kind), **more)
    out = await kit.run_python(LANGCHAIN_EMBEDS, tmp_path, environment)
    told = [json.loads(line) for line in out.splitlines() if line.startswith("[[")]
    rounded = [[*round_trip(one)] for one in VECTORS]
    assert told == [rounded, rounded, [[*one] for one in VECTORS]]
    sent = [one.json["input"] for one in stage.alpha.exchanges[-3:]]
    assert sent == [[[*text.encode()] for text in TEXTS], TEXTS, TEXTS]


COHERE: Final = """
import json, os, cohere

def rank(client, model, key=os.environ["KEY"]):
    co = client(api_key=key, base_url=os.environ["BASE"])
    return co.rerank(model=model, query="q", documents=["a", "b"], top_n=1)

told = []
for client in (cohere.ClientV2, cohere.Client):
    made = rank(client, os.environ["MODEL"])
    told.append([made.results[0].index, made.meta.billed_units.search_units])
    for error, *asked in ((cohere.BadRequestError, "nope"), (cohere.UnauthorizedError, "nope", "bad")):
        try:
            rank(client, *asked)
        except error as caught:
            told.append(caught.body["error"]["code"])
print("TOLD", json.dumps(told))
"""


async def test_cohere_ranks(stage: Stage, tmp_path: Path) -> None:
    results = [{"index": 1, "relevance_score": 0.9}]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1.0}}
    stage.alpha.always(json_reply({"id": "r", "results": results, "meta": meta}))
    environment = write_environment(stage, stage.fresh("rerank"), BASE=stage.gateway.root_url)
    out = await kit.run_python(COHERE, tmp_path, environment)
    told = json.loads(out.rpartition("TOLD ")[2])
    assert told == [[1, 1.0], "model_not_found", "invalid_api_key"] * 2
    assert [one.json["top_n"] for one in stage.alpha.exchanges] == [1, 1]
