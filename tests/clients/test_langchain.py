"""LangChain: chat over both of OpenAI's APIs, and embeddings with the README's setting and without."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest

from tests.clients import kit
from tests.clients.test_codex import each_provider
from tests.support.embeddings import VECTORS, embeddings, round_trip
from tests.support.pairs import Provider
from tests.support.replies import json_reply
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.told import Told, ToolCall

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

CHAT: Final = """
import json, os
from langchain_core.messages import HumanMessage, ToolMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

@tool
def weather(city: str) -> str:
    "Tell the weather."
    return f"sunny in {city}"

uses_responses = json.loads(os.environ["USES_RESPONSES"])
plain = ChatOpenAI(model=os.environ["MODEL"], use_responses_api=uses_responses, max_retries=0)
chat = plain.bind_tools([weather])
said = [HumanMessage("Weather in Köln?")]
first = chat.invoke(said)
said += [first, *(weather.invoke(call) for call in first.tool_calls)]
print("TOLD", chat.invoke(said).text)
print("STREAMED", "".join(chunk.text for chunk in plain.stream("Hello")))
"""
EMBEDDINGS: Final = """
import json, os, tiktoken.model
from langchain_openai import OpenAIEmbeddings

model = os.environ["MODEL"]
tiktoken.model.MODEL_TO_ENCODING[model] = "bytes"
options = json.loads(os.environ["OPTIONS"])
vectors = OpenAIEmbeddings(model=model, max_retries=0, **options).embed_documents(["Hi", "you"])
print("MADE", json.dumps(vectors))
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


async def run(stage: Stage, folder: Path, script: str, **environment: str) -> str:
    address = {"OPENAI_API_KEY": stage.key, "OPENAI_BASE_URL": stage.gateway.base_url}
    return await kit.run_python(script, folder, address | environment)


@pytest.mark.parametrize("uses_responses", [False, True], ids=["chat", "responses"])
@each_provider
async def test_a_tool_and_a_stream(
    stage: Stage, tmp_path: Path, provider: Provider, uses_responses: bool
) -> None:
    called = Told(calls=[ToolCall("call_1", "weather", {"city": "Köln"})], finish="tool_calls")
    final = Told("It is sunny.")
    stage.alpha.play(provider.reply(called), provider.reply(final), provider.stream(final))
    model = stage.fresh(provider.kind)
    uses = json.dumps(uses_responses)
    out = await run(stage, tmp_path, CHAT, MODEL=model, USES_RESPONSES=uses)
    assert "TOLD It is sunny." in out
    assert "STREAMED It is sunny." in out
    assert "sunny in Köln" in stage.alpha.exchanges[-2].body.decode()


TEXTS: Final = ["Hi", "you"]
TOKENS: Final = [[*text.encode()] for text in TEXTS]


@each_row(
    ("options", "sent"),
    [
        ({}, TOKENS),
        ({"check_embedding_ctx_length": False}, TEXTS),
        (
            {"check_embedding_ctx_length": False, "model_kwargs": {"encoding_format": "float"}},
            TEXTS,
        ),
    ],
)
@each_row("kind", ["embed", "embed-floats"])
async def test_embeddings(
    stage: Stage, tmp_path: Path, kind: str, options: dict[str, Any], sent: list[Any]
) -> None:
    """By default it sends tokens of OpenAI's own tables, which mean nothing to other models."""
    table = tmp_path / "tiktoken_ext" / "bytes_table.py"
    table.parent.mkdir()
    table.write_text(TABLE, encoding="utf-8")
    wants_floats = "model_kwargs" in options
    stage.alpha.play(json_reply(embeddings(packed=kind == "embed" and not wants_floats)))
    out = await run(
        stage,
        tmp_path,
        EMBEDDINGS,
        MODEL=stage.fresh(kind),
        OPTIONS=json.dumps(options),
        PYTHONPATH=str(tmp_path),
    )
    made = json.loads(out.rpartition("MADE ")[2])
    expected = VECTORS if wants_floats else [*map(round_trip, VECTORS)]
    assert [tuple(one) for one in made] == [*expected]
    assert stage.alpha.last.json["input"] == sent
