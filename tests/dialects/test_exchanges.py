"""Streams that end in an error inside a 200, and what a dialect must provide."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from gateway.base.errors import BadRequest
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.records import Target
from gateway.extension import find_dialects
from tests import streams
from tests.dialects.chat.kit import Played, dump, each_byte, make_context, play, read_chunks
from tests.streams import Stream, drop_comments
from tests.support.accumulated import accumulate
from tests.support.content import of_events
from tests.support.formats import CALLERS, EXCHANGES, SERVICES, UPSTREAMS
from tests.support.messages import read_events
from tests.support.rows import each_row

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


def test_a_caller_of_streams_needs_an_upstream_that_has_them() -> None:
    """Else the first request for one would find out."""
    caller, streams = CALLERS["chat"], UPSTREAMS["chat"]
    still = SimpleNamespace(name="still", makes_audio=False)
    assert Exchange(caller, streams).upstream is streams
    with pytest.raises(TypeError, match="still is no EventUpstream"):
        Exchange(caller, cast("Any", still))


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


@each_row(
    ("name", "own"), [("completions", "prompt"), ("embeddings", "input"), ("speech", "input")]
)
def test_services_refuse_tools_and_conversations(name: str, own: str) -> None:
    """A conversation is charged where a model allows it, and passes as it came."""
    if name not in SERVICES:
        return
    service = SERVICES[name]
    target = Target("theirs", unit="character")
    request = service.caller.parse_request(dump({"model": "m", own: "a", "messages": ["x"]}))
    with pytest.raises(BadRequest, match=f"'messages'.* Use '{own}'"):
        service.write_request(request, target)
    allowed = replace(target, allow=frozenset({"messages"}))
    assert json.loads(service.write_request(request, allowed).data)["messages"] == ["x"]
    asked = {"model": "m", own: "a", "tools": [{"type": "web_search"}]}
    with pytest.raises(BadRequest, match="run this tool itself"):
        service.write_request(service.caller.parse_request(dump(asked)), target)


def test_the_names_of_dialects_are_known_without_importing_them() -> None:
    assert find_dialects().keys() == UPSTREAMS.keys()


@each_row(
    ("dialect", "path", "headers"),
    [
        ("chat", "/chat/completions", {"Authorization": "Bearer k"}),
        ("messages", "/messages", {"x-api-key": "k"}),
    ],
)
def test_keys_go_where_a_provider_wants_them(
    dialect: str, path: str, headers: dict[str, str]
) -> None:
    upstream = UPSTREAMS[dialect]
    always = {"anthropic-version": "2023-06-01"} if dialect == "messages" else {}
    assert upstream.path == path
    assert upstream.auth_headers("k") == {**headers, **always}
    assert upstream.auth_headers("") == always
