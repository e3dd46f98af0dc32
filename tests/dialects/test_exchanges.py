"""Streams that end in an error inside a 200, for callers of each dialect; efforts told back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import pytest
from orjson import dumps

from gateway.dialects.exchanges import EXCHANGES, UPSTREAMS
from gateway.dialects.records import DIALECTS, EMBEDDERS, LIMITED, Target
from tests import streams
from tests.dialects.chat.kit import Played, each_byte, make_context, play, read_chunks
from tests.streams import Stream, drop_comments
from tests.support.messages import read_events
from tests.support.rows import each_row
from tests.support.said import accumulate
from tests.support.told import of_events

READ: Final[dict[str, Callable[[list[Any]], str]]] = {
    "chat": lambda chunks: accumulate(chunks).text,
    "messages": lambda events: of_events(events).text,
    "responses": lambda events: "".join(
        one["delta"] for one in events if one["type"] == "response.output_text.delta"
    ),
}


def run(stream: Stream, caller: str, pieces: Iterable[bytes]) -> Played:
    return play(EXCHANGES[caller][stream.dialect].open_stream(make_context()), pieces)


def read_sent(stream: Stream) -> str:
    """Return the text before the error."""
    before = stream.objects[:-1]
    return READ[stream.dialect](before)


def read_heard(caller: str, out: bytes) -> str:
    events = drop_comments(out)
    return READ[caller](read_chunks(events) if caller == "chat" else read_events(events))


@each_row(
    ("caller", "stream"),
    [
        pytest.param(caller, stream, id=f"{stream.name}-{caller}")
        for stream in (*streams.FAILING, *streams.RESPONSES_FAILING)
        for caller in EXCHANGES
        if stream.dialect in EXCHANGES[caller]
    ],
)
def test_a_failing_stream_hands_on_its_text_and_fails_with_its_message(
    stream: Stream, caller: str
) -> None:
    played = run(stream, caller, [stream.body])
    assert played == run(stream, caller, each_byte(stream.body))
    assert (played.complete, played.failure) == (False, stream.error)
    assert read_heard(caller, played.out) == read_sent(stream)
    assert played.delivered
    assert b"[DONE]" not in played.out
    assert b"message_stop" not in played.out


TOOL: Final = {"type": "function", "name": "f", "parameters": {"type": "object"}}
BUDGET: Final = Target("theirs", reasoning="budget")
CALL_F: Final = {"tools": [TOOL], "tool_choice": {"type": "function", "name": "f"}}


@each_row(
    ("dialect", "target", "fields", "sent"),
    [
        ("chat", Target("theirs"), {}, True),
        ("chat", Target("theirs", reasoning="none"), {}, False),
        ("messages", Target("theirs"), {}, True),
        ("messages", BUDGET, {}, True),
        ("messages", BUDGET, CALL_F, False),
        ("responses", Target("gpt-5.4"), {}, True),
        ("responses", Target("gpt-5.4", leave_out=frozenset({"reasoning"})), {}, False),
    ],
)
def test_an_effort_that_was_not_sent_is_not_told_back(
    dialect: str, target: Target, fields: dict[str, Any], sent: bool
) -> None:
    exchange = EXCHANGES["responses"][dialect]
    body = {"model": "m", "input": "Hi", "reasoning": {"effort": "medium"}, **fields}
    request = exchange.caller.parse_request(dumps(body))
    assert exchange.write_request(request, target).effort_sent is sent


def test_the_names_of_dialects_are_known_without_importing_them() -> None:
    assert {*DIALECTS} == {*UPSTREAMS}
    assert {*EMBEDDERS, *LIMITED} <= {*DIALECTS}
