"""SDKs of others: the vendors' for Node, Vercel's, LangChain, OpenAI's Agents, Cohere's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients import kit
from tests.clients.test_codex import PROVIDERS, each_provider
from tests.support.content import Content, ToolCall
from tests.support.embeddings import VECTORS, embeddings, round_trip
from tests.support.pairs import Provider
from tests.support.replies import json_reply, sse_reply
from tests.support.rows import each_row
from tests.support.stage import Stage

TOOL_LOOP: Final = (
    Content(calls=[ToolCall("call_k3tq81wz", "weather", {"city": "Köln"})], finish="tool_calls"),
    Content("It is sunny."),
)
pytestmark = [pytest.mark.slow, pytest.mark.timeout(360)]


async def run(stage: Stage, folder: Path, script: str, model: str, **more: str) -> str:
    return await kit.run_script(script, folder, stage.gateway, stage.key, model, **more)


@each_provider
async def test_openai_responds(stage: Stage, tmp_path: Path, provider: Provider) -> None:
    plain, place = Content("It is sunny."), Content('{"city": "Köln"}')
    stage.alpha.play(
        provider.reply(plain), provider.reply(place), provider.stream(plain), provider.stream(place)
    )
    out = await run(stage, tmp_path, "openai_responses.mjs", stage.fresh(provider.kind))
    told = dict(line.split(" ", 1) for line in out.splitlines())
    assert told == {"TOLD": plain.text, "PARSED": "Köln", "STREAMED": plain.text, "HELPED": "Köln"}


@each_row("kind", ["embed", "embed-floats"])
async def test_openai_embeds(stage: Stage, tmp_path: Path, kind: str) -> None:
    stage.alpha.play(json_reply(embeddings(packed=kind == "embed")), json_reply(embeddings()))
    out = await run(stage, tmp_path, "openai_embeddings.mjs", stage.fresh(kind))
    texts, floats = json.loads(out.rpartition("MADE ")[2])
    assert [tuple(one) for one in texts] == [*map(round_trip, VECTORS)]
    assert [tuple(one) for one in floats] == [*VECTORS]


async def test_a_transcript(stage: Stage, tmp_path: Path) -> None:
    told = {"text": "Hallo.", "usage": {"type": "duration", "seconds": 9}}
    delta = {"type": "transcript.text.delta", "delta": "Hallo."}
    done = {"type": "transcript.text.done", **told}
    stage.alpha.play(json_reply(told), sse_reply([delta, done], done=False))
    out = await run(stage, tmp_path, "openai_transcripts.mjs", stage.fresh("hearing"))
    assert out.split() == ["HEARD", "Hallo.", "9", delta["type"], done["type"]]
    for one in stage.alpha.exchanges:
        assert bytes([7]) * 600_000 in one.body


@each_row("kind", ["embed", "embed-responses"])
async def test_vercel_embeds(stage: Stage, tmp_path: Path, kind: str) -> None:
    stage.alpha.play(json_reply(embeddings(VECTORS[:1])), json_reply(embeddings()))
    out = await run(stage, tmp_path, "vercel_embeddings.mjs", stage.fresh(kind))
    made = json.loads(out.rpartition("MADE ")[2])
    vectors = [[*one] for one in VECTORS]
    assert made == {"embedding": vectors[0], "embeddings": vectors, "usage": {"tokens": 11}}


async def test_langchain_calls_a_tool(stage: Stage, tmp_path: Path) -> None:
    """Over both of OpenAI's APIs."""
    for one in PROVIDERS:
        stage.alpha.play(*[*map(one.reply, TOOL_LOOP), one.stream(TOOL_LOOP[1])] * 2)
    models = " ".join(stage.fresh(one.kind) for one in PROVIDERS)
    out = await run(stage, tmp_path, "langchain.txt", models)
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


async def test_langchain_embeds(stage: Stage, tmp_path: Path) -> None:
    """By default it sends tokens of OpenAI's own tables, which mean nothing to other models."""
    table = tmp_path / "tiktoken_ext" / "bytes_table.py"
    table.parent.mkdir()
    table.write_bytes((kit.SCRIPTS / "tiktoken_table.txt").read_bytes())
    kinds = ("embed", "embed-floats")
    packed = [kind == "embed" and "model_kwargs" not in one for kind in kinds for one in OPTIONS]
    stage.alpha.play(*(json_reply(embeddings(packed=one)) for one in packed))
    more = {"OPTIONS": json.dumps(OPTIONS), "PYTHONPATH": str(tmp_path)}
    models = " ".join(map(stage.fresh, kinds))
    out = await run(stage, tmp_path, "langchain_embeddings.txt", models, **more)
    told = [json.loads(line) for line in out.splitlines() if line.startswith("[[")]
    rounded = [[*round_trip(one)] for one in VECTORS]
    assert told == [rounded, rounded, [[*one] for one in VECTORS]] * 2
    sent = [one.json["input"] for one in stage.alpha.exchanges]
    assert sent == [[[*text.encode()] for text in TEXTS], TEXTS, TEXTS] * 2


async def test_cohere_ranks(stage: Stage, tmp_path: Path) -> None:
    results = [{"index": 1, "relevance_score": 0.9}]
    meta = {"api_version": {"version": "2"}, "billed_units": {"search_units": 1.0}}
    stage.alpha.always(json_reply({"id": "r", "results": results, "meta": meta}))
    model, base = stage.fresh("rerank"), stage.gateway.root_url
    out = await run(stage, tmp_path, "cohere.txt", model, BASE=base)
    told = json.loads(out.rpartition("TOLD ")[2])
    assert told == [[1, 1.0], "model_not_found", "invalid_api_key"] * 2
    assert [one.json["top_n"] for one in stage.alpha.exchanges] == [1, 1]
