"""Functions of the dialects as functions of plain values, for `examples.txt`; `'` stands for the quotes of JSON."""

from __future__ import annotations

import json

from gateway.dialects.chat.content import count_message_text
from gateway.dialects.chat.stream import ChatReader, maybe_probe
from gateway.dialects.wire import jsonbytes
from gateway.dialects.wire.base import RateLimit
from gateway.dialects.wire.fields import Fields, read_body
from gateway.dialects.wire.jsonbytes import hide_bill
from gateway.dialects.wire.passing import maybe_find_end_usage
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.sse import is_canonical, parse_event
from gateway.dialects.wire.usage import maybe_repair_chat_usage
from tests.dialects.chat.kit import make_context
from tests.support.formats import UPSTREAMS


def hide(told: Json) -> object:
    """Hide a bill; without one the same object comes back."""
    made = hide_bill(told, json.dumps(told).encode())
    return "the same" if made is told else made


def find_end_usage(end: bytes) -> object:
    place = maybe_find_end_usage(end)
    assert place is None or json.loads(end[place[0] : place[1]]) == place[2]
    return place and place[2]


def count_chat_text(message: Json) -> int:
    return count_message_text(message)


def count_block_text(block: object) -> int:
    return UPSTREAMS["messages"].count_text({"content": [block]})


def splice(text: str) -> str | None:
    """Put b in place of the model a."""
    sent = text.replace("'", '"').encode("latin-1")
    made = jsonbytes.maybe_splice(sent, "model", "a", "b")
    return None if made is None else made.decode("latin-1").replace('"', "'")


def has_probe(*deltas: object) -> bool:
    """Return whether a chunk with these deltas has exactly one text."""
    choices = [{"index": index, "delta": one} for index, one in enumerate(deltas)]
    return maybe_probe({"choices": choices}) is not None


def ends_stream(rest: bytes) -> bool:
    return ChatReader(make_context()).is_end(rest)


def read_object(data: bytes) -> Json:
    return read_body(data, Fields({}), ())


def is_common(block: bytes) -> bool:
    return is_canonical(block, parse_event(block), "a")


def repair(*counts: object) -> object:
    """Make the total the sum: the counts of input, output and both. Other fields stay, in their order."""
    names = ("prompt_tokens", "completion_tokens", "total_tokens")
    reported = dict(zip(names, counts, strict=False)) | {"num_sources_used": 7}
    before = json.dumps(reported)
    made = maybe_repair_chat_usage(reported)
    assert json.dumps(reported) == before
    assert made is None or [*made.items()][3:] == [("num_sources_used", 7)]
    assert made is None or [*made][:3] == [*names]
    return None if made is None else [*made.values()][:3]


def write_seconds(seconds: float) -> str:
    return RateLimit("requests", 1, 1, seconds).reset
