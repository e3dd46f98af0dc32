"""The same request and reply in each dialect: as callers send and read it, as upstreams send it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.wire.sse import render_data
from tests.dialects.chat.kit import DONE, MODEL, check_stream, chunk, events, read_chunks
from tests.dialects.chat.kit import choice as make_choice
from tests.dialects.chat_over_messages.kit import close, finish, frame, open_block, say, start
from tests.dialects.messages_over_chat.kit import read_events
from tests.dialects.tiny.dialect import BYE, ROLES

Json = dict[str, Any]


TALK = [("rule", "Be brief."), ("me", "Hi"), ("you", "Hello"), ("me", "Grüße?")]
MESSAGES = [{"role": ROLES[speaker], "content": words} for speaker, words in TALK]
ASK: dict[str, Json] = {
    "chat": {
        "model": MODEL,
        "messages": MESSAGES,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 50,
    },
    "messages": {
        "model": MODEL,
        "system": TALK[0][1],
        "messages": MESSAGES[1:],
        "stream": True,
        "max_tokens": 50,
    },
    "tiny": {"to": MODEL, "lines": TALK, "flow": True, "most": 50},
}
"""The request for a stream, by the caller's dialect."""
FLAG = {"chat": "stream", "messages": "stream", "tiny": "flow"}
"""The field that asks for a stream."""


@dataclass(frozen=True, slots=True)
class Said:
    """A reply's text, its ending, and the tokens that were reported or charged."""

    text: str
    end: str = "done"
    used: tuple[int, int] | None = (9, 3)


FINISH: Final = {"done": "stop", "cut": "length"}
STOP: Final = {"done": "end_turn", "cut": "max_tokens"}
ENDS: Final = {word: end for table in (FINISH, STOP) for end, word in table.items()}


def split(text: str) -> list[str]:
    """Split into pieces of three characters, so that templates have something to match."""
    return [text[at : at + 3] for at in range(0, len(text), 3)]


def name_counts(said: Said, given: str, made: str) -> Json:
    return {} if said.used is None else dict(zip((given, made), said.used, strict=True))


def write_chat(said: Said) -> tuple[bytes, bytes]:
    finish_reason, counts = (
        FINISH[said.end],
        name_counts(said, "prompt_tokens", "completion_tokens"),
    )
    message = {"role": "assistant", "content": said.text}
    choice = {"index": 0, "message": message, "finish_reason": finish_reason}
    reply = {**chunk(), "object": "chat.completion", "choices": [choice], "usage": counts or None}
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": piece} for piece in split(said.text)]
    chunks = [chunk(make_choice(delta)) for delta in deltas]
    chunks.append(chunk(make_choice({}, finish_reason)))
    if counts:
        chunks.append(chunk(usage=counts))
    return json.dumps(reply).encode(), events(*chunks) + DONE


def write_messages(said: Said) -> tuple[bytes, bytes]:
    counts = name_counts(said, "input_tokens", "output_tokens")
    block = {"type": "text", "text": said.text}
    head = {"id": "msg_1", "type": "message", "role": "assistant", "model": "theirs"}
    ending = {"stop_reason": STOP[said.end], "stop_sequence": None, "usage": counts}
    told = [start(), open_block(0, text=""), *map(say, split(said.text)), close()]
    told[0]["message"]["model"] = "theirs"
    told += [finish(STOP[said.end], **counts), {"type": "message_stop"}]
    return json.dumps({**head, "content": [block], **ending}).encode(), frame(*told)


def write_tiny(said: Said) -> tuple[bytes, bytes]:
    counts = name_counts(said, "in", "out")
    end = {"end": said.end, **({"used": counts} if counts else {})}
    told: list[Json] = [{"by": "theirs"}, *({"w": piece} for piece in split(said.text)), end]
    reply = {"by": "theirs", "words": said.text, **end}
    return json.dumps(reply).encode(), b"".join(map(render_data, told)) + BYE


WRITE: Final = {"chat": write_chat, "messages": write_messages, "tiny": write_tiny}
"""The JSON reply and the stream, by the upstream's dialect."""


def read_chat(reply: bytes) -> Said:
    body = json.loads(reply)
    assert (body["model"], body["object"]) == (MODEL, "chat.completion")
    [choice] = body["choices"]
    usage = body["usage"]
    used = usage["prompt_tokens"], usage["completion_tokens"]
    return Said(choice["message"]["content"], ENDS[choice["finish_reason"]], used)


def read_messages(reply: bytes) -> Said:
    body = json.loads(reply)
    assert (body["model"], body["type"]) == (MODEL, "message")
    usage = body["usage"]
    used = usage.get("input_tokens"), usage.get("output_tokens")
    text = "".join(block["text"] for block in body["content"])
    return Said(text, ENDS[body["stop_reason"]], used if used != (None, None) else None)


def read_tiny(reply: bytes) -> Said:
    body = json.loads(reply)
    assert body["by"] == MODEL
    used = body.get("used")
    return Said(body["words"], body["end"], (used["in"], used["out"]) if used else None)


READ: Final[dict[str, Callable[[bytes], Said]]] = {
    "chat": read_chat,
    "messages": read_messages,
    "tiny": read_tiny,
}
"""Readers of JSON replies, by the caller's dialect."""


def hear_chat(stream: bytes) -> Said:
    chunks = read_chunks(stream.removesuffix(DONE))
    assert stream.endswith(DONE)
    check_stream(chunks, usage=bool(chunks[-1].get("usage")))
    choices = [one for each in chunks for one in each["choices"]]
    text = "".join(one["delta"].get("content") or "" for one in choices)
    usage = chunks[-1].get("usage")
    used = (usage["prompt_tokens"], usage["completion_tokens"]) if usage else None
    return Said(text, ENDS[choices[-1]["finish_reason"]], used)


def hear_messages(stream: bytes) -> Said:
    told = read_events(stream)
    assert (told[0]["message"]["model"], told[-1]) == (MODEL, {"type": "message_stop"})
    text = "".join(one["delta"]["text"] for one in told if one["type"] == "content_block_delta")
    usage = told[-2]["usage"]
    used = (usage["input_tokens"], usage["output_tokens"]) if usage else None
    return Said(text, ENDS[told[-2]["delta"]["stop_reason"]], used)


def hear_tiny(stream: bytes) -> Said:
    told = read_chunks(stream)
    assert (told[0], told[-1]) == ({"by": MODEL}, {"bye": True})
    used = told[-2].get("used")
    text = "".join(one["w"] for one in told[1:-2])
    return Said(text, told[-2]["end"], (used["in"], used["out"]) if used else None)


HEAR: Final[dict[str, Callable[[bytes], Said]]] = {
    "chat": hear_chat,
    "messages": hear_messages,
    "tiny": hear_tiny,
}
"""Readers of streams, by the caller's dialect."""
