"""Between equal dialects every event passes byte for byte, but for the model's name and the ids.

The events that break a rule of the format are repaired; each file of `tests/streams` says how many.
The terminal event is the gateway's own, since it waits for the charge.
"""

from __future__ import annotations

import re

from gateway.dialects import EXCHANGES
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


@streams.each(*streams.CHAT, *streams.MESSAGES)
def test_an_event_that_breaks_no_rule_passes_byte_for_byte(stream: Stream) -> None:
    choices = len(accumulate(stream.objects).choices) if stream.dialect == "chat" else 1
    exchange = EXCHANGES[stream.dialect][stream.dialect]
    sent = play(exchange.open_stream(make_context(usage=True, n=choices)), [stream.body])
    passed = {*list_events(rename(stream)), DONE, STOP}
    repaired = [event for event in list_events(sent.out) if event not in passed]
    if stream.repaired is None:  # a recorded one
        assert sent.complete
    else:
        assert len(repaired) == stream.repaired, b"".join(repaired).decode()
