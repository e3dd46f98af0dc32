"""An upstream that replies to a request for a stream with JSON: the caller gets the stream."""

from __future__ import annotations

import pytest

from gateway.base.errors import UndeliverableReply, UpstreamError
from gateway.base.money import Tokens
from gateway.dialects.exchanges import MAX_REPLY_BYTES, ReplayedStream, refuse_large
from gateway.dialects.wire.failures import map_status
from gateway.dialects.wire.sse import BOM
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    Played,
    check_stream,
    dump,
    make_context,
    play,
)
from tests.support.accumulated import accumulate
from tests.support.formats import EXCHANGES
from tests.support.rows import each_row

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
REPLY = dump(
    {
        "id": "5319bd",
        "object": "chat.completion",
        "created": 1,
        "model": "theirs",
        "choices": [
            {"index": 1, "message": {"role": "assistant", "content": ""}, "finish_reason": "stop"},
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hällo", "tool_calls": [CALL]},
                "finish_reason": "tool_calls",
            },
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12},
    }
)


def replay(body: bytes = REPLY, *, usage: bool = True, n: int = 2) -> Played:
    """Read a reply as the events of a stream."""
    stream = ReplayedStream(EXCHANGES["chat"]["chat"], make_context(usage=usage, n=n))
    try:
        return play(stream, [body])
    except UpstreamError as error:
        metered = stream.measure()
        return Played(b"", False, error.message, metered.tokens, metered.estimated, False)


@each_row("usage", [False, True])
def test_a_json_reply_becomes_a_stream_that_keeps_the_rules(*, usage: bool) -> None:
    played = replay(usage=usage)
    assert played.complete
    assert played.out.endswith(DONE)
    check_stream(played.chunks, usage=usage)
    said = accumulate(played.chunks)
    assert said.choices[0].text == "Hällo"
    assert said.choices[0].tool_calls[0].arguments == "{}"
    assert [said.choices[index].finish_reason for index in (0, 1)] == ["tool_calls", "stop"]
    assert said.usage == ((9, 3, 12) if usage else None)
    assert (played.tokens, played.estimated) == (Tokens(9, output=3), False)


def test_a_cut_reply_never_becomes_a_stream() -> None:
    for cut in range(1, len(REPLY)):
        played = replay(REPLY[:cut])
        assert (played.out, played.complete) == (b"", False)
        assert played.failure
        told = Tokens(9, output=3) if cut == len(REPLY) - 1 else Tokens(INPUT_ESTIMATE)
        assert played.tokens == told, "a usage that can be read is charged"
        assert not played.delivered


@each_row("before", [BOM, BOM + b"\r\n"])
def test_a_byte_order_mark_does_not_count(before: bytes) -> None:
    exchange, context = EXCHANGES["chat"]["chat"], make_context(n=2)
    assert exchange.read_reply(before + REPLY, context) == exchange.read_reply(REPLY, context)
    assert replay(before + REPLY) == replay(REPLY)
    refused = map_status(400, before + b'{"error":{"message":"said upstream"}}', None)
    assert refused.message == "said upstream"


def test_a_reply_without_usage_is_estimated() -> None:
    played = replay(REPLY.replace(b'"usage"', b'"other"'))
    assert (played.tokens, played.estimated) == (Tokens(INPUT_ESTIMATE, output=2), True)


def test_a_reply_too_large_to_deliver_is_owed_unless_it_is_a_page() -> None:
    metered, failure = refuse_large(b' \n{"a":"xxx', make_context())
    assert type(failure) is UndeliverableReply
    assert metered.tokens == Tokens(INPUT_ESTIMATE, output=1600)
    with pytest.raises(UpstreamError) as raised:
        refuse_large(b"\n<!DOCTYPE html>", make_context())
    assert type(raised.value) is UpstreamError


def test_less_is_replayed_where_it_is_translated() -> None:
    assert EXCHANGES["chat"]["chat"].most_replayed_bytes == MAX_REPLY_BYTES
    assert EXCHANGES["chat"]["messages"].most_replayed_bytes == 8 << 20
