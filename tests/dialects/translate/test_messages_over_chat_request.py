"""Messages callers over chat: schemas, bounds, and what comes back. `requests` and `heard.txt` have the rest."""

from __future__ import annotations

from typing import Any, Final

import orjson
import pytest
from anthropic.types.message_create_params import MessageCreateParamsBase

from gateway.base.errors import BadRequest, UndeliverableReply
from gateway.dialects.translate.messages_over_chat_reply import MessageWriter
from gateway.dialects.translate.messages_over_chat_request import CARRIED, DROPPED, PASSED, REFUSED
from gateway.dialects.wire.records import CompletionRequest, Target
from tests.dialects.chat.kit import (
    MODEL,
    Json,
    begin,
    choice,
    chunk,
    event,
    events,
    fragment,
    make_context,
    role,
    text,
)
from tests.dialects.rules import read_events
from tests.support.formats import EXCHANGES

EXCHANGE: Final = EXCHANGES["messages"]["chat"]


def write(content: list[Json], role: str = "user") -> None:
    body = {"model": MODEL, "max_tokens": 9, "messages": [{"role": role, "content": content}]}
    EXCHANGE.write_request(CompletionRequest(body, MODEL), Target("theirs"))


def test_every_field_of_the_sdk_is_decided_on() -> None:
    sent_as_headers = {"user_profile_id", "workspace_id"}
    decided = CARRIED | PASSED | DROPPED | set(REFUSED) | sent_as_headers
    assert set(MessageCreateParamsBase.__annotations__) - decided == set()
    assert not (CARRIED | PASSED) & DROPPED
    assert not set(REFUSED) & (CARRIED | PASSED | DROPPED)


TEXT: Json = {"type": "string"}


def closed(*required: str, **properties: Any) -> Json:
    made = {"properties": properties, "required": list(required), "additionalProperties": False}
    return {"type": "object", **made}


DEEP: Any = {}


for _ in range(300):
    DEEP = {"a": DEEP}


def test_arguments_nested_too_deeply_to_write_are_the_callers_fault() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": DEEP}
    try:
        orjson.dumps(DEEP)
    except TypeError:
        with pytest.raises(BadRequest, match="deeply"):
            write([use], "assistant")
    else:
        raise AssertionError("the example is not deep enough")


def test_documents_within_documents_beyond_pythons_stack_are_the_callers_fault() -> None:
    content: list[Json] = [{"type": "text", "text": "x"}]
    for _ in range(500):
        content = [{"type": "document", "source": {"type": "content", "content": content}}]
    with pytest.raises(BadRequest, match="deeply"):
        write(content)


def test_calls_too_large_to_hold_are_a_failure() -> None:
    pipeline = EXCHANGE.open_stream(make_context(usage=True))
    pipeline.feed(events(*(chunk(one) for one in (role(), begin(0), begin(1)))))
    large = event(chunk(fragment(1, "x" * (1 << 20))))
    for _ in range(8):
        pipeline.feed(large)
    pipeline.feed(large)
    assert pipeline.failure is None  # the rest is read for its usage
    pipeline.end()
    assert isinstance(pipeline.failure, UndeliverableReply)


def test_what_a_stream_holds_is_bounded() -> None:
    """8 Mi characters of a stream's text and arguments are held, and not one more."""
    held = "[" + " " * ((8 << 20) - 1)
    for first, last in ((begin(0, held), fragment(0, "]")), (text(held), text("a"))):
        writer = MessageWriter(make_context(usage=True))
        writer.write({"choices": [first]})
        with pytest.raises(UndeliverableReply, match="too large"):
            writer.write({"choices": [last]})


def test_what_comes_back_stands_before_the_text_and_never_ends_an_answer() -> None:
    """Claude Code takes a last block of thinking for the whole answer."""
    writer = MessageWriter(make_context(usage=True, tag="gw1.00000000."))
    details = choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})
    for choices, kinds in (
        ([details, text("Hi"), details], ["thinking", "text"]),
        ([begin(0, "{}"), details], ["thinking", "tool_use", "thinking"]),
    ):
        writer.write({"choices": choices})
        writer.flush()
        told = read_events(writer.take())
        begun = [one["content_block"]["type"] for one in told if "content_block" in one]
        assert begun == kinds
