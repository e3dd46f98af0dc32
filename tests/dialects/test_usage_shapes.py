"""Each usage that providers are known to send (`usage.toml`) is read for what it means, and shows callers no bill."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import orjson

from gateway.dialects.exchanges import EMBEDDINGS, EXCHANGES
from gateway.dialects.records import CompletionRequest, ReplyContext
from gateway.money import Tokens
from gateway.usage import Expected, Metered, UsageLimits
from tests.support.rows import each_row

Json = dict[str, Any]
Read = tuple[Metered, bytes]
SHAPES: Final[dict[str, list[Json]]] = tomllib.loads(
    Path(__file__).with_name("usage.toml").read_text(encoding="utf-8")
)
EXPECTED: Final = Expected(7, UsageLimits(10**8, 10**6, 64))
BILLS: Final = (b"cost", b"is_byok")
CHOICE: Final = {"index": 0, "message": {"role": "assistant", "content": "Yes."}}
CHAT: Final = {"id": "a", "object": "chat.completion", "created": 1, "model": "m"}
CHAT_SAYS: Final = (
    {**CHAT, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Yes."}}]},
    {**CHAT, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
)
MESSAGE: Final = {"id": "msg_1", "type": "message", "role": "assistant", "model": "m"}
ENDED: Final = {"stop_reason": "end_turn", "stop_sequence": None}
PART: Final = {"type": "output_text", "text": "Yes.", "annotations": []}
SAID: Final = {"id": "msg_1", "type": "message", "role": "assistant", "content": [PART]}
RESPONSE: Final = {"id": "resp_1", "object": "response", "model": "m", "status": "completed"}
VECTORS: Final = {
    "object": "list",
    "model": "m",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.25e-7]}],
}


def make_context() -> ReplyContext:
    request = CompletionRequest(body={}, model="ours", stream=True, wants_usage=True)
    return ReplyContext(request, "req_1", EXPECTED)


def read(dialect: str, reply: Json) -> Read:
    done = EXCHANGES[dialect][dialect].read_reply(orjson.dumps(reply), make_context())
    assert done.failure is None
    return done.metered, done.body


def run(dialect: str, *told: Json) -> Read:
    pipeline = EXCHANGES[dialect][dialect].open_stream(make_context())
    names = [b"event: %b\n" % str(one["type"]).encode() if "type" in one else b"" for one in told]
    data = [
        name + b"data: %b\n\n" % orjson.dumps(one) for name, one in zip(names, told, strict=True)
    ]
    end = [b"data: [DONE]\n\n"] * (dialect == "chat")
    out = pipeline.feed(b"".join(data + end)) + pipeline.end()
    assert pipeline.complete, pipeline.failure
    return pipeline.measure(), out + pipeline.finish()


def read_chat(usage: Json) -> Read:
    return read("chat", {**CHAT, "choices": [{**CHOICE, "finish_reason": "stop"}], "usage": usage})


def run_chat(usage: Json) -> Read:
    return run("chat", *CHAT_SAYS, {**CHAT, "choices": [], "usage": usage})


def read_message(usage: Json) -> Read:
    content = [{"type": "text", "text": "Yes."}]
    return read("messages", {**MESSAGE, "content": content, **ENDED, "usage": usage})


def read_response(told: Json) -> Read:
    return read("responses", {**RESPONSE, **told, "output": [*told.get("output", ()), SAID]})


def run_response(told: Json) -> Read:
    items = [*told.get("output", ()), SAID]
    begun: Json = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        *(
            {"type": f"response.output_item.{end}", "output_index": index, "item": item}
            for index, item in enumerate(items)
            for end in ("added", "done")
        ),
        {"type": "response.completed", "response": {**RESPONSE, **told, "output": items}},
    ]
    return run("responses", *({**one, "sequence_number": at} for at, one in enumerate(events)))


def read_vectors(*parts: Json) -> Read:
    reply = {key: held for part in parts for key, held in part.items()}
    done = EMBEDDINGS.read_reply(orjson.dumps(reply), make_context())
    assert orjson.loads(done.body)["data"] == VECTORS["data"]
    return done.metered, done.body


WAYS: Final[list[tuple[str, Callable[[Any], Read]]]] = [
    ("chat", read_chat),
    ("chat", run_chat),
    ("messages", read_message),
    ("responses", read_response),
    ("responses", run_response),
    ("embeddings", lambda usage: read_vectors(VECTORS, {"usage": usage})),
    ("embeddings", lambda usage: read_vectors({"usage": usage}, VECTORS)),
    ("chat_stream", lambda told: run("chat", *told)),
    ("messages_stream", lambda told: run("messages", *told)),
]


def play(shape: Json, way: Callable[[Any], Read]) -> bytes:
    """Check what is metered; return what the caller is sent."""
    told = [orjson.loads(line) for line in shape["sent"].splitlines()]
    metered, out = way(told if len(told) > 1 else told[0])
    assert metered.tokens == Tokens(**shape["tokens"])
    assert dict(metered.tool_calls) == shape.get("tool_calls", {})
    assert metered.reported_cost_nano == shape.get("bill_nano")
    assert metered.estimated == shape.get("estimated", False)
    assert not any(word in out for word in BILLS)
    return out


@each_row(("shape", "way"), [(shape, way) for table, way in WAYS for shape in SHAPES[table]])
def test_a_usage_means_what_its_provider_says(shape: Json, way: Callable[[Any], Read]) -> None:
    play(shape, way)


@each_row("shape", SHAPES["chat"])
def test_a_chat_callers_usage_adds_up(shape: Json) -> None:
    told = orjson.loads(play(shape, read_chat))["usage"]
    if not shape.get("estimated") and "total_tokens" in told and "prompt_tokens" in told:
        tokens = Tokens(**shape["tokens"])
        assert told["prompt_tokens"] + told["completion_tokens"] == told["total_tokens"]
        assert (told["prompt_tokens"], told["completion_tokens"]) == (
            tokens.all_input,
            tokens.output,
        )


@each_row("shape", SHAPES["chat_stream"])
def test_a_chat_callers_last_usage_is_the_one_that_counts(shape: Json) -> None:
    out = play(shape, lambda told: run("chat", *told))
    told = [orjson.loads(line[6:]) for line in out.splitlines() if line.startswith(b"data: {")]
    shown = [one["usage"] for one in told if one.get("usage")]
    assert shown[-1]["completion_tokens"] in (shape["tokens"]["output"], 0)
