"""Usage: each shape in `usage.txt` is read for what it means, and no caller sees a bill; what counts as text.

    == chat
    # DeepSeek (vercel/ai, deepseek fixtures)               where the shape was seen
    {"prompt_tokens":9,"completion_tokens":5} = {…}         a usage, or the reply's members around it; the tokens
    == chat_stream
    [{"choices":[…]},{"choices":[],"usage":{…}}] = {…}      chunks
    == messages_stream
    [{"input_tokens":9},"Yes.",{"output_tokens":5}] = {…}   the first usage, texts or other blocks, later usages

Beside the tokens stand `bill_nano`, the provider's own bill; `estimated`, where one half at least was not told,
or cannot be; `asked`, what the request asked for that changes the bill; calls of tools, and terms. Shapes one below
the other mean the same. The input was estimated as 7 tokens, and the caller was sent 4 bytes of text.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import orjson
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.money import Tokens
from gateway.base.prices import BillOptions, BillTerms
from gateway.base.usage import Expected, Metered, Reported, UsageLimits
from gateway.dialects.exchanges import Exchange
from gateway.dialects.messages.stream import read_messages_usage
from gateway.dialects.wire.jsonbytes import hide_bill
from gateway.dialects.wire.records import CompletionRequest, ReplyContext
from gateway.dialects.wire.usage import make_chat_usage, maybe_repair_chat_usage, read_openai_usage
from tests.dialects.chat.kit import make_context
from tests.dialects.messages.kit import STOP, close, finish, frame, open_block, say, start
from tests.support.formats import EXCHANGES, find_texts
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

Json = dict[str, Any]
CHAT_EXCHANGE, MESSAGES = (EXCHANGES[name][name] for name in ("chat", "messages"))
DONE: Final = b"data: [DONE]\n\n"
TOKENS: Final = tuple(Tokens.__dataclass_fields__)


def read_shapes() -> dict[str, list[Json]]:
    """Return the rows of each table: what is sent, the tokens, and what else is told."""
    shapes: dict[str, list[Json]] = {}
    for path in (Path(__file__).with_name("usage.txt"), *find_texts("usage.txt")):
        name, alike = "", list[Any]()
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith("== "):
                assert not alike
                name = line[3:]
            if line.startswith(("#", "== ")):
                continue
            sent, mark, told = f" {line}".partition(" = ")
            alike += [orjson.loads(sent)] if sent else []
            if mark:
                row = orjson.loads(told)
                tokens = {key: row.pop(key) for key in TOKENS if key in row}
                shapes.setdefault(name, []).extend(
                    {"sent": one, "tokens": tokens, **row} for one in alike
                )
                alike = []
        assert not alike
    return shapes


SHAPES: Final = read_shapes()
EXPECTED: Final = Expected(7, UsageLimits(10**8, 10**6, 64))
BILLS: Final = (b"cost", b"is_byok")
CHOICE: Final = {
    "index": 0,
    "message": {"role": "assistant", "content": "Yes."},
    "finish_reason": "stop",
}
CHAT: Final = {"id": "a", "object": "chat.completion", "created": 1, "model": "m"}
CHAT_SAYS: Final = (
    {**CHAT, "choices": [{"index": 0, "delta": {"role": "assistant", "content": "Yes."}}]},
    {**CHAT, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]},
)
MESSAGE: Final = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "Yes."}],
    "stop_reason": "end_turn",
    "stop_sequence": None,
}


def list_chunks(sent: list[Json]) -> list[Json]:
    return [{**CHAT, "object": "chat.completion.chunk", **one} for one in sent]


def list_message_events(sent: list[Any]) -> list[Json]:
    """Return the events of a stream: a usage begins it, blocks follow, usages end it."""
    first, *rest = sent
    events: list[Json] = [
        {"type": "message_start", "message": {**MESSAGE, "content": [], "usage": first}}
    ]
    for one in rest:
        if isinstance(one, dict) and "type" not in one:
            reason = one.get("stop_reason", "end_turn")
            events.append(finish(reason, **{key: one[key] for key in one if key != "stop_reason"}))
        elif isinstance(one, dict):
            events.append({"type": "content_block_start", "index": 0, "content_block": one})
        else:
            events += [open_block(0, text=""), say(one), close()]
    return [*events, STOP]


WAYS: Final[list[tuple[str, Exchange, Callable[[Any], Json | list[Json]]]]] = [
    ("chat", CHAT_EXCHANGE, lambda usage: {**CHAT, "choices": [CHOICE], "usage": usage}),
    ("chat", CHAT_EXCHANGE, lambda usage: [*CHAT_SAYS, {**CHAT, "choices": [], "usage": usage}]),
    ("chat_stream", CHAT_EXCHANGE, list_chunks),
    ("messages", MESSAGES, lambda usage: {**MESSAGE, "usage": usage}),
    ("messages_stream", MESSAGES, list_message_events),
    *(
        way
        for path in find_texts("usage.py")
        for way in import_module(f"tests.extras.{path.parent.name}.usage").WAYS
    ),
]
"""The tables of the file, and how a provider sends what is in them: as a reply, or as events."""


def measure(exchange: Exchange, sent: Json | list[Json], asked: Json) -> tuple[Metered, bytes]:
    """Return what is metered, and what the caller is sent."""
    request = CompletionRequest(body={}, model="ours", stream=True, wants_usage=True)
    context = ReplyContext(request, "req_1", replace(EXPECTED, options=BillOptions(**asked)))
    if isinstance(sent, dict):
        reply = exchange.read_reply(orjson.dumps(sent), context)
        assert reply.failure is None
        return reply.metered, reply.body
    pipeline = exchange.open_stream(context)
    data = b"".join(
        (b"event: %b\n" % str(one["type"]).encode() if "type" in one else b"")
        + b"data: %b\n\n" % orjson.dumps(one)
        for one in sent
    )
    out = pipeline.feed(data + DONE * (exchange is CHAT_EXCHANGE)) + pipeline.end()
    assert pipeline.complete, pipeline.failure
    return pipeline.measure(), out + pipeline.take_last()


def play(shape: Json, exchange: Exchange, way: Callable[[Any], Json | list[Json]]) -> bytes:
    """Check what is metered; return what the caller is sent."""
    sent = way(shape["sent"])
    metered, out = measure(exchange, sent, shape.get("asked", {}))
    assert metered.tokens == Tokens(**shape["tokens"])
    assert dict(metered.tool_calls) == shape.get("tool_calls", {})
    assert metered.reported_cost_nano == shape.get("bill_nano")
    assert metered.terms == BillTerms(**shape.get("terms", {}))
    estimated = shape.get("estimated", False)
    assert (metered.estimated, metered.unreported) == (
        estimated,
        shape.get("unreported", estimated),
    )
    assert not any(word in out for word in BILLS)
    return out


@each_row(
    ("shape", "exchange", "way"),
    [(shape, exchange, way) for table, exchange, way in WAYS for shape in SHAPES.get(table, [])],
)
def test_a_usage_means_what_its_provider_says(shape: Json, exchange: Exchange, way: Any) -> None:
    play(shape, exchange, way)


@each_row("shape", SHAPES["chat"])
def test_a_chat_callers_usage_adds_up(shape: Json) -> None:
    told = orjson.loads(play(shape, *WAYS[0][1:]))["usage"]
    if not shape.get("estimated") and "total_tokens" in told and "prompt_tokens" in told:
        tokens = Tokens(**shape["tokens"])
        assert told["prompt_tokens"] + told["completion_tokens"] == told["total_tokens"]
        assert (told["prompt_tokens"], told["completion_tokens"]) == (
            tokens.all_input,
            tokens.output,
        )


@each_row("shape", SHAPES["chat_stream"])
def test_a_chat_callers_last_usage_is_the_one_that_counts(shape: Json) -> None:
    out = play(shape, CHAT_EXCHANGE, list_chunks)
    told = [orjson.loads(line[6:]) for line in out.splitlines() if line.startswith(b"data: {")]
    shown = [one["usage"] for one in told if one.get("usage")]
    assert shown[-1]["completion_tokens"] in (shape["tokens"]["output"], 0)


ROOMY: Final = Expected(7, UsageLimits(10**6, 10**6, 10**6))
OPENAI_FIELDS: Final = ("prompt_tokens", "completion_tokens", "total_tokens")
FIELDS: Final = {
    "chat": (*OPENAI_FIELDS, "prompt_tokens_details"),
    "messages": (
        *("input_tokens", "output_tokens", "cache_read_input_tokens"),
        "cache_creation_input_tokens",
    ),
}
READ: Final[dict[str, Callable[[Any], Reported]]] = {
    "chat": lambda usage: read_openai_usage(usage, None, EXPECTED),
    "messages": lambda usage: read_messages_usage(usage, EXPECTED),
}
counts = st.integers(0, 2_000)
plausible = st.fixed_dictionaries(
    {"prompt_tokens": counts, "completion_tokens": counts},
    optional={
        "total_tokens": counts,
        "prompt_cache_hit_tokens": counts,
        "prompt_tokens_details": st.fixed_dictionaries(
            {}, optional={"cached_tokens": counts, "cache_write_tokens": counts}
        ),
    },
)


@fuzz(150)
@given(plausible)
def test_input_classes_sum_to_the_prompt_and_none_is_negative(reported: Json) -> None:
    """Caches stand beside the prompt where they exceed it, or where the total says so."""
    read = read_openai_usage(reported, None, ROOMY)
    tokens, prompt = read.tokens, reported["prompt_tokens"]
    assert read.has_input
    assert read.has_output
    assert min(tokens.input, tokens.cached_input, tokens.cache_write, tokens.output) >= 0
    cached, written, beside = tokens.cached_input, tokens.cache_write, tokens.all_input - prompt
    assert beside in (0, cached, written, cached + written)
    assert beside or cached + written <= prompt
    assert tokens.output >= reported["completion_tokens"]
    expected = tokens.all_input + reported["completion_tokens"]
    assert tokens.total == max(reported.get("total_tokens", 0), expected)


@each_row("dialect", READ)
def test_no_json_breaks_a_reader(dialect: str) -> None:
    @fuzz(80)
    @given(st.dictionaries(st.sampled_from(FIELDS[dialect]), json_values))
    def check(usage: Json) -> None:
        read = READ[dialect](usage)
        tokens = read.tokens
        assert min(tokens.input, tokens.cached_input, tokens.cache_write, tokens.output) >= 0
        assert read.has_input or tokens.all_input == 0
        assert read.has_output or tokens.output == 0
        if dialect == "chat":
            repaired = maybe_repair_chat_usage(usage)
            assert repaired is None or maybe_repair_chat_usage(repaired) is None

    check()


@fuzz(100)
@given(st.builds(Tokens, counts, counts, counts, counts))
def test_a_made_usage_is_read_as_the_same_total(tokens: Tokens) -> None:
    made = make_chat_usage(tokens)
    assert made["prompt_tokens"] + made["completion_tokens"] == made["total_tokens"]
    read = read_openai_usage(made, None, ROOMY).tokens
    assert read == Tokens(tokens.total - tokens.output, output=tokens.output)


def test_a_bill_whose_name_is_escaped_is_not_shown() -> None:
    text = rb'{"usage":{"c\u006fst":0.5}}'
    assert hide_bill(json.loads(text), text) == {"usage": {}}


def test_searches_that_a_broken_stream_did_not_count_are_counted() -> None:
    result = {"type": "web_search_tool_result", "tool_use_id": "t", "content": []}
    found = {"type": "content_block_start", "index": 0, "content_block": result}
    for used in ({}, {"server_tool_use": {"web_search_requests": 0}}):
        pipeline = MESSAGES.open_stream(make_context(usage=True))
        pipeline.feed(frame(start(input_tokens=10, output_tokens=1, **used), found, found))
        assert pipeline.measure().tool_calls == {"web_search": 2}
