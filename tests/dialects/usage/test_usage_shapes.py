"""Each usage that providers are known to send is read for what it means, and shows callers no bill."""

from __future__ import annotations

import orjson

from gateway.dialects.exchanges import EMBEDDINGS, EXCHANGES
from gateway.dialects.records import CompletionRequest, ReplyContext
from gateway.usage import Expected, Metered, UsageLimits
from tests.dialects.usage import Shape, chat, embeddings, messages, responses
from tests.support.rows import each_row

EXPECTED = Expected(7, UsageLimits(10**8, 10**6, 64))
BILLS = (b"cost", b"is_byok")
CHAT = {
    "id": "a",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Yes."},
            "finish_reason": "stop",
        }
    ],
}
MESSAGE = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Yes."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
}
SAID = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
}
RESPONSE = {
    "id": "resp_1",
    "object": "response",
    "model": "m",
    "status": "completed",
    "error": None,
}
VECTORS = {
    "object": "list",
    "model": "m",
    "data": [{"object": "embedding", "index": 0, "embedding": [0.5, -1.25e-7]}],
}


def make_context(*, stream: bool = False) -> ReplyContext:
    request = CompletionRequest(body={}, model="ours", stream=stream, wants_usage=True)
    return ReplyContext(request, "req_1", EXPECTED)


def check(shape: Shape, metered: Metered, out: bytes) -> None:
    assert metered.tokens == shape.tokens
    assert dict(metered.tool_calls) == shape.tool_calls
    assert metered.reported_cost_nano == shape.bill_nano
    assert metered.estimated == shape.estimated
    assert not any(word in out for word in BILLS)


def read(dialect: str, reply: dict[str, object]) -> tuple[Metered, bytes]:
    done = EXCHANGES[dialect][dialect].read_reply(orjson.dumps(reply), make_context())
    assert done.failure is None
    return done.metered, done.body


def run(dialect: str, data: bytes) -> tuple[Metered, bytes]:
    pipeline = EXCHANGES[dialect][dialect].open_stream(make_context(stream=True))
    out = pipeline.feed(data) + pipeline.end()
    assert pipeline.complete, pipeline.failure
    return pipeline.measure(), out + pipeline.finish()


@each_row("shape", chat.OBJECTS)
def test_a_chat_usage(shape: Shape) -> None:
    metered, out = read("chat", {**CHAT, "usage": orjson.loads(shape.sent)})
    check(shape, metered, out)
    told = orjson.loads(out)["usage"]
    if not shape.estimated and "total_tokens" in told and "prompt_tokens" in told:
        assert told["prompt_tokens"] + told["completion_tokens"] == told["total_tokens"]
        assert told["completion_tokens"] == shape.tokens.output
        assert told["prompt_tokens"] == shape.tokens.all_input


@each_row("shape", [*chat.OBJECTS])
def test_a_chat_usage_at_the_end_of_a_stream(shape: Shape) -> None:
    end = chat.TEXT.replace(b'"content":"Yes."', b'"content":""').replace(b"null}]}", b'"stop"}]}')
    last = orjson.dumps({**CHAT, "choices": [], "usage": orjson.loads(shape.sent)})
    events = b"".join(b"data: %b\n\n" % one for one in (chat.TEXT, end, last, b"[DONE]"))
    metered, out = run("chat", events.replace(b"\n\n\n", b"\n\n"))
    check(shape, metered, out)


@each_row("shape", chat.STREAMS)
def test_the_usage_of_a_chat_stream(shape: Shape) -> None:
    events = b"".join(b"data: %b\n\n" % line for line in shape.sent.splitlines())
    metered, out = run("chat", events + b"data: [DONE]\n\n")
    check(shape, metered, out)
    told = [orjson.loads(line[6:]) for line in out.splitlines() if line.startswith(b"data: {")]
    shown = [one["usage"] for one in told if one.get("usage")]
    assert shown[-1]["completion_tokens"] in (shape.tokens.output, 0)


@each_row("shape", messages.OBJECTS)
def test_a_messages_usage(shape: Shape) -> None:
    check(shape, *read("messages", {**MESSAGE, "usage": orjson.loads(shape.sent)}))


@each_row("shape", messages.STREAMS)
def test_the_usage_of_a_messages_stream(shape: Shape) -> None:
    lines = [(orjson.loads(line)["type"], line) for line in shape.sent.splitlines()]
    events = b"".join(b"event: %b\ndata: %b\n\n" % (kind.encode(), line) for kind, line in lines)
    check(shape, *run("messages", events))


@each_row("shape", responses.RESPONSES)
def test_a_responses_usage(shape: Shape) -> None:
    told = orjson.loads(shape.sent)
    reply = {**RESPONSE, **told, "output": [*told.get("output", ()), SAID]}
    check(shape, *read("responses", reply))


@each_row("shape", responses.RESPONSES)
def test_the_usage_of_a_responses_stream(shape: Shape) -> None:
    told = orjson.loads(shape.sent)
    items = [*told.get("output", ()), SAID]
    begun: dict[str, object] = {**RESPONSE, "status": "in_progress", "output": [], "usage": None}
    events: list[dict[str, object]] = [{"type": "response.created", "response": begun}]
    events += (
        {"type": f"response.output_item.{end}", "output_index": index, "item": item}
        for index, item in enumerate(items)
        for end in ("added", "done")
    )
    events.append({"type": "response.completed", "response": {**RESPONSE, **told, "output": items}})
    data = b"".join(
        b"event: %b\ndata: %b\n\n"
        % (str(one["type"]).encode(), orjson.dumps({**one, "sequence_number": number}))
        for number, one in enumerate(events)
    )
    check(shape, *run("responses", data))


@each_row("where", ["behind the vectors", "before them"])
@each_row("shape", embeddings.OBJECTS)
def test_the_usage_of_embeddings(shape: Shape, where: str) -> None:
    told = {"usage": orjson.loads(shape.sent)}
    reply = {**VECTORS, **told} if where == "behind the vectors" else {**told, **VECTORS}
    done = EMBEDDINGS.read_reply(orjson.dumps(reply), make_context())
    check(shape, done.metered, done.body)
    assert orjson.loads(done.body)["data"] == VECTORS["data"]
    assert b"-1.25e-7" in orjson.dumps(VECTORS)
