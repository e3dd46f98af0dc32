"""Between equal dialects every event passes byte for byte, but for the model's name and the ids.

Events that break a rule of the format are repaired; each file of `tests/streams` says how many.
The terminal event is the gateway's own, since it waits for the charge.
"""

from __future__ import annotations

import re
from difflib import SequenceMatcher

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.messages.stream import STOP
from tests import streams
from tests.dialects.chat.kit import DONE, MODEL, make_context, play
from tests.streams import Stream
from tests.support.said import accumulate


def list_events(body: bytes) -> list[bytes]:
    return re.findall(rb".+?\n\n", body, re.DOTALL)


def rename(stream: Stream) -> bytes:
    """Return the stream with our model's name, and with ids of the chat format's shape."""
    body = stream.body
    heads = [one.get("message", one) for one in stream.objects]
    for model in {head["model"] for head in heads if head.get("model")}:
        body = re.sub(
            rb'("model": ?)"%b"' % re.escape(model.encode()), rb'\1"%b"' % MODEL.encode(), body
        )
    if stream.dialect == "chat":
        for identity in {head["id"] for head in heads if head.get("id")}:
            bare = identity.removeprefix("chatcmpl-").encode()
            body = re.sub(
                rb'("id": ?)"%b"' % re.escape(identity.encode()), rb'\1"chatcmpl-%b"' % bare, body
            )
    return body


def is_terminal(event: bytes) -> bool:
    return event == DONE or b'"message_stop"' in event


def count_repaired(stream: Stream) -> tuple[int, int]:
    """Pass a stream; return how many events did not pass as they are, and what took their place."""
    choices = len(accumulate(stream.objects).choices) if stream.dialect == "chat" else 1
    exchange = EXCHANGES[stream.dialect][stream.dialect]
    sent = play(exchange.open_stream(make_context(usage=True, n=choices)), [stream.body])
    assert sent.complete
    *events, end = list_events(sent.out)
    assert end in {DONE, STOP}
    given = [event for event in list_events(rename(stream)) if not is_terminal(event)]
    blocks = SequenceMatcher(None, given, events, autojunk=False).get_matching_blocks()
    passed = sum(block.size for block in blocks)
    return len(given) - passed, len(events) - passed


@streams.each(*streams.CHAT, *streams.MESSAGES)
def test_events_that_break_no_rule_pass_byte_for_byte_and_in_order(stream: Stream) -> None:
    assert count_repaired(stream) == (stream.repaired or count_repaired(stream))
