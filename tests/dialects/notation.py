"""How `heard.txt` writes events: short forms of what providers send and of what callers hear.

begin, end                     the usual first and last events
{"content": "a"}, "stop"       chat: a delta of the only choice, its finish reason; else the chunk
call 0 c1 f "{"                chat: a delta that begins a call of a function: its index, id, name, arguments
arguments 0 "}"                chat: a delta with more of a call's arguments
start 0 text {…}               messages: a block begins; members beyond the least one of its kind
text 0 "a"                     messages: a delta of a block: text, thinking, json, signature, citation
stop 0                         messages: the block's end
finish "end_turn" {…}          messages: what the caller hears of `message_delta`
added 0 {…}                    responses: an event by its short name, its indexes, and what else it has
text 0 "a"                     responses: an event that has a delta, and nothing else that matters
done 0                         responses, heard: an item as its events have said
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final

from tests.dialects.chat.kit import (
    DONE,
    MODEL,
    Json,
    choice,
    chunk,
    completion,
    event,
    read_chunks,
    role,
    stop,
)
from tests.dialects.messages.kit import STOP, finish, frame, start
from tests.dialects.rules import read_events
from tests.support.messages import make_message

CHAT_USAGE: Final[Json] = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
USAGE: Final[Json] = {
    "input_tokens": 10,
    "input_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
    "output_tokens": 20,
    "output_tokens_details": {"reasoning_tokens": 15},
    "total_tokens": 30,
}
RESPONSE: Final[Json] = {"id": "resp_1", "object": "response", "created_at": 1, "model": "theirs"}
BEGUN: Final[Json] = {"id": "resp_1", "created_at": 1, "status": "in_progress", "output": []}
LEAST: Final[Json] = {
    "chat": completion({}),
    "messages": make_message([], usage={"input_tokens": 10, "output_tokens": 20}),
    "responses": {**RESPONSE, "status": "completed", "output": [], "usage": USAGE},
}
"""The provider's JSON replies that say nothing."""
CHARGES: Final = {"chat": "5 0 0 3", "messages": "10 0 0 20", "responses": "5 4 1 20"}
"""The charges for the usage of these, and of the usual ends."""
USUAL: Final[dict[str, dict[str, bytes]]] = {
    "chat": {"begin": event(chunk(role())), "end": event(chunk(usage=CHAT_USAGE)) + DONE},
    "messages": {
        "begin": frame(start(input_tokens=10, output_tokens=1)),
        "end": frame(finish(output_tokens=20), STOP),
    },
    "responses": {
        "begin": frame(
            {"type": "response.created", "response": BEGUN},
            {"type": "response.in_progress", "response": BEGUN},
        ),
        "end": frame({"type": "response.completed", "response": LEAST["responses"]}),
    },
}
IDS: Final = {
    "chat": "chatcmpl-request-1",
    "messages": "msg_request-1",
    "responses": "resp_request-1",
}
BLOCKS: Final[dict[str, Json]] = {
    "text": {"text": ""},
    "thinking": {"thinking": "", "signature": ""},
    "tool_use": {"input": {}},
}
DELTAS: Final = {
    "text": ("text_delta", "text"),
    "thinking": ("thinking_delta", "thinking"),
    "json": ("input_json_delta", "partial_json"),
    "signature": ("signature_delta", "signature"),
    "citation": ("citations_delta", "citation"),
}
ITEMS: Final[dict[str, tuple[str, Json]]] = {
    "message": ("msg", {"role": "assistant", "status": "in_progress", "content": []}),
    "reasoning": ("rs", {"summary": []}),
    "function_call": ("fc", {"arguments": "", "status": "in_progress"}),
    "custom_tool_call": ("ctc", {"input": "", "status": "in_progress"}),
}
"""How the gateway's ids of items begin, and what else each has when it begins."""
PARTS: Final[dict[str, Json]] = {
    "part": {"type": "output_text", "text": "", "annotations": [], "logprobs": []},
    "summary_part": {"type": "summary_text", "text": ""},
}
LONG: Final = {
    "text": "output_text", "part": "content_part", "summary": "reasoning_summary_text",
    "summary_part": "reasoning_summary_part", "arguments": "function_call_arguments",
    "input": "custom_tool_call_input", "image": "image_generation_call",
}  # fmt: skip
"""How the types of responses' events begin, by the short names."""
TEXTS: Final = {
    "text": ("content", "text"),
    "refusal": ("content", "refusal"),
    "summary": ("summary", "text"),
}
"""Where an item has the sum of such deltas."""
SAID_AGAIN: Final = {"text.done", "refusal.done", "summary.done", "arguments.done", "input.done"}
"""Events that say the deltas again, which the rules check."""
SHORT: Final = re.compile(r"([a-z_.]+) (\d+)(?:\.(\d+))?(?: (.*))?")
"""A short event: its name, its indexes, and a value."""


def dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def strip(value: Any, nothing: tuple[Any, ...] = (None,)) -> Any:
    """Leave out members without a value, and zeros of a usage: the rules of a dialect ask for them."""
    if isinstance(value, dict):
        kept = {
            key: held
            if key == "input"
            else strip(held, (None, 0, {}) if key == "usage" else nothing)
            for key, held in value.items()
        }
        return {key: held for key, held in kept.items() if held not in nothing or held is False}
    return [strip(one, nothing) for one in value] if isinstance(value, list) else value


def differ(made: Json, usual: Json) -> Json:
    return {key: held for key, held in made.items() if usual.get(key, made) != held}


def spell(*words: str, rest: Json | None = None) -> str:
    """Join words, and what else there is."""
    return " ".join([*words, dump(rest)] if rest else words)


def write_event(provider: str, line: str) -> bytes:
    """Write an event of the provider."""
    if line in USUAL[provider]:
        return USUAL[provider][line]
    if provider in READ and (found := SHORT.fullmatch(line)):
        made = READ[provider](*found.groups())
        return event(chunk(choice(made))) if provider == "chat" else frame(made)
    try:
        value = json.loads(line)  # orjson refuses halves of characters
    except json.JSONDecodeError:
        return f"data: {line}\n\n".encode()
    if provider != "chat" or not isinstance(value, dict | str):
        name = f"event: {value['type']}\n" if "type" in value else ""
        return f"{name}data: {json.dumps(value)}\n\n".encode()
    if isinstance(value, dict) and value.keys() & {"choices", "usage", "error", "object"}:
        return event(chunk() | value)
    return event(chunk(stop(finish=value) if isinstance(value, str) else choice(value)))


def read_call(name: str, index: str, _: str | None, value: str | None) -> Json:
    """Read a delta with a call of a function, or with more of its arguments."""
    identity, function, said = (value or "").split(" ", 2) if name == "call" else ("", "", value)
    head: Json = {"id": identity, "type": "function"} if identity else {}
    named = {"name": function} if function else {}
    call = {"index": int(index), **head, "function": {**named, "arguments": json.loads(said or "")}}
    return {"tool_calls": [call]}


def spell_call(delta: Json) -> str | None:
    """Return the short form of a delta with one call, if it has one."""
    match delta:
        case {"tool_calls": [{"index": index, "function": dict(function), **rest}]}:
            names = [rest.get("id"), function.get("name")]
        case _:
            return None
    said = dump(function.get("arguments"))
    if names == [None, None]:
        short = f"arguments {index} {said}"
    elif " " in "".join(map(str, names)):
        return None
    else:
        short = f"call {index} {names[0]} {names[1]} {said}"
    found = SHORT.fullmatch(short)
    return short if found and read_call(*found.groups()) == delta else None


def read_block_event(name: str, index: str, _: str | None, value: str | None) -> Json:
    head: Json = {"index": int(index)}
    if name == "stop":
        return {"type": "content_block_stop", **head}
    assert value is not None
    if name == "start":
        kind, _, more = value.partition(" ")
        block = {"type": kind, **BLOCKS.get(kind, {}), **json.loads(more or "{}")}
        return {"type": "content_block_start", **head, "content_block": block}
    kind, key = DELTAS[name]
    return {"type": "content_block_delta", **head, "delta": {"type": kind, key: json.loads(value)}}


def read_response_event(name: str, index: str, inner: str | None, value: str | None) -> Json:
    told = json.loads(value or "{}")
    stem, _, stage = name.partition(".")
    head: Json = {"output_index": int(index)}
    if name in ("added", "done"):
        return {"type": f"response.output_item.{name}", **head, "item": told}
    if inner is not None:
        head["summary_index" if "summary" in name else "content_index"] = int(inner)
    kind = f"response.{LONG.get(stem, stem)}.{stage or 'delta'}"
    return {"type": kind, **head, **({"delta": told} if isinstance(told, str) else told)}


READ: Final = {"chat": read_call, "messages": read_block_event, "responses": read_response_event}


def tell_chunks(out: bytes, identity: str, _: Json) -> Iterator[str]:
    for one in read_chunks(out.removesuffix(DONE)):
        head = {"id": identity, "created": 1, "model": MODEL}
        fields = strip(differ(one, {**head, "object": "chat.completion.chunk"}))
        match fields:
            case {"choices": [{"index": 0, "delta": delta, **rest}], **more} if not more:
                if delta == {"role": "assistant", "content": ""}:
                    yield "begin"
                elif not delta and rest.keys() == {"finish_reason"}:
                    yield dump(rest["finish_reason"])
                else:
                    yield (not rest and spell_call(delta)) or dump({**delta, **rest})
            case _:
                yield dump(fields)
    if out.endswith(DONE):
        yield "end"


def tell_message_events(out: bytes, identity: str, usage: Json) -> Iterator[str]:
    for one in read_events(out):
        match strip(one):
            case {"type": "message_start", "message": {"id": told, "usage": begun}}:
                assert told == identity
                yield spell("begin", rest=strip(begun, (None, 0, {})))
            case {"type": "message_stop"}:
                yield "end"
            case {"type": "message_delta", "delta": delta, "usage": spent, **more}:
                rest: Json = {**delta, **{str(key): held for key, held in more.items()}}
                reason = rest.pop("stop_reason", None)
                rest |= {"usage": spent} if spent != usage else {}
                yield spell("finish", dump(reason), rest=rest)
            case {"type": "content_block_stop", "index": index}:
                yield f"stop {index}"
            case {"type": "content_block_start", "index": index, "content_block": block}:
                usual = {**BLOCKS.get(block["type"], {}), "caller": {"type": "direct"}}
                kind = block.pop("type")
                yield spell("start", str(index), kind, rest=differ(block, usual))
            case {"type": "content_block_delta", "index": index, "delta": {"type": kind, **made}}:
                name = next(name for name, (delta, _) in DELTAS.items() if delta == kind)
                (said,) = made.values()
                yield f"{name} {index} {dump(said)}"
            case told:
                yield dump(told)


def tell_response_events(out: bytes, _: str, usage: Json) -> Iterator[str]:
    usual: Json = {}
    items: dict[int, Json] = {}
    for one in read_events(out):
        kind = one["type"].removeprefix("response.")
        if kind == "created":
            usual = one["response"]
            assert (usual["model"], usual["created_at"]) == (MODEL, 1)
            yield "begin"
        elif kind == "in_progress":
            assert one["response"] == usual
        elif "response" in one:
            told = {**one["response"], **strip({"usage": one["response"].get("usage")})}
            response = differ(told, {**usual, "status": kind, "usage": usage})
            assert response.pop("output", []) is not None
            yield spell(kind, rest=strip(response))
        else:
            stem, _, stage = kind.rpartition(".")
            first, _, more = stem.partition(".")
            short = next((name for name, long in LONG.items() if long == first), first)
            name = ".".join(filter(None, (short, more, stage)))
            name = name.removeprefix("output_item.").removesuffix(".delta")
            yield tell_item_event(name, one, items.setdefault(one["output_index"], {}))


UNSAID: Final = (
    "type", "sequence_number", "item_id", "output_index", "content_index", "summary_index",
)  # fmt: skip


def tell_item_event(name: str, one: Json, item: Json) -> str:
    """Tell an event of an item; `item` is what its events have said so far."""
    index: int = one["output_index"]
    inner: int = one.get("content_index") or one.get("summary_index") or 0
    told = {key: one[key] for key in one if key not in UNSAID}
    at = f"{index}.{inner}" if inner else f"{index}"
    if name == "added":
        item |= json.loads(dump(one["item"]))
        prefix, usual = ITEMS.get(item["type"], ("", {}))
        usual = {**usual, "id": f"{prefix}_request-1_{index}", "type": item["type"]}
        return spell(name, at, item["type"], rest=strip(differ(item, usual)))
    if name == "done":
        whole = {**item, "status": "completed"} if "status" in item else item
        return spell(name, at, rest={} if one["item"] == whole else strip(one["item"]))
    if "part" in told:
        stem, _, stage = name.partition(".")
        parts = item.setdefault("content" if stem == "part" else "summary", [])
        usual = PARTS[stem] if stage == "added" else parts[inner]
        parts[inner:] = [told["part"]]
        rest = {} if told["part"] == usual else strip(told)
        return spell(name if rest else name.removesuffix(".added"), at, rest=rest)
    if "delta" in told:
        kind, key = TEXTS.get(name, ("", name))
        for held in item.get(kind, [])[inner : inner + 1] if kind else [item]:
            held[key] = held.get(key, "") + told["delta"]
        assert told.keys() == {"delta"} or told["logprobs"] == []
        return f"{name} {at} {dump(told['delta'])}"
    if "annotation" in told:
        item["content"][inner]["annotations"].append(told["annotation"])
    return spell(name, at, rest={} if name in SAID_AGAIN else strip(told))


TELL: Final = {
    "chat": tell_chunks,
    "messages": tell_message_events,
    "responses": tell_response_events,
}
