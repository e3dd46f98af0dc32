"""Responses callers over chat: names, custom tools, the echo, the position, bounds. `requests` and `heard.txt` have the rest."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any, Final, get_args, get_type_hints

import pytest
from openai.types.responses import ResponseInputItemParam, ResponseOutputRefusal, ResponseOutputText
from openai.types.responses.response_create_params import ResponseCreateParamsBase
from openai.types.responses.response_reasoning_item import Summary
from pydantic import BaseModel

from gateway.base.money import Tokens
from gateway.dialects.translate import first_choice
from gateway.dialects.translate.first_choice import Kind
from gateway.dialects.wire.call_ids import MAX_NAME_CHARS
from gateway.dialects.wire.customs import MAX_OPENING_CHARS, InputDecoder, read_input
from gateway.dialects.wire.halves import mend_halves
from gateway.dialects.wire.records import CompletionRequest, ReplyUsage, Target
from gateway.extras.responses.history import SUMMARIES
from gateway.extras.responses.over_chat_conversation import DROPPED_ITEMS
from gateway.extras.responses.over_chat_reply import make_part
from gateway.extras.responses.over_chat_request import CARRIED, DROPPED, PASSED, REFUSED
from gateway.extras.responses.over_chat_stream import FORMS, ResponseWriter
from gateway.extras.responses.over_chat_tools import ToolName, flatten_name, read_tool_names
from tests.dialects.chat.kit import (
    MODEL,
    REPORTED,
    Json,
    Played,
    choice,
    chunk,
    completion,
    dump,
    fragment,
    make_context,
    play,
    stream,
    text,
)
from tests.dialects.rules import add_up_response, read_events, read_response
from tests.support import config
from tests.support.content import Content
from tests.support.formats import EXCHANGES
from tests.support.pairs import CHAT_PROVIDER
from tests.support.process import RESPONSES
from tests.support.replies import LAST_CHUNK, chunked, stream_head
from tests.support.rows import each_row
from tests.support.running import Launch
from tests.support.upstream import ScriptedUpstream, Wait

EXCHANGE: Final = EXCHANGES["responses"]["chat"]
TOOL: Final[Json] = {"type": "function", "name": "f"}
PATCH: Final[Json] = {"type": "custom", "name": "patch", "description": "Edits files."}
SPACE: Final[Json] = {
    "type": "namespace",
    "name": "ns",
    "description": "d",
    "tools": [
        {"type": "function", "name": "f", "parameters": {"type": "object"}},
        {"type": "custom", "name": "c"},
    ],
}


def play_whole(data: bytes, body: Json | None = None) -> Played:
    return play(EXCHANGE.open_stream(make_context(body, usage=True)), [data])


def test_every_field_of_the_schema_is_in_a_table() -> None:
    known = CARRIED | DROPPED | PASSED | REFUSED
    assert set(ResponseCreateParamsBase.__annotations__) <= known
    assert len(known) == len(CARRIED) + len(DROPPED) + len(PASSED) + len(REFUSED)


def test_every_item_of_the_schema_is_known() -> None:
    known = {"message", "function_call", "function_call_output", "item_reference"}
    known |= DROPPED_ITEMS | SUMMARIES
    known |= {"compaction_trigger", "custom_tool_call", "custom_tool_call_output", "reasoning"}
    kinds: set[Any] = set()
    for model in get_args(ResponseInputItemParam):
        for one in get_args(get_type_hints(model)["type"]):
            kinds |= set(get_args(one)) or {one}
    assert len(kinds) > 20
    assert kinds - {type(None)} <= known


SEARCH: Json = {"type": "web_search"}


def test_long_names_are_cut_and_told_apart() -> None:
    long = "n" * 100
    first, second = flatten_name(long, "a"), flatten_name(long, "b")
    assert len(first) == len(second) == MAX_NAME_CHARS
    assert first != second
    assert flatten_name("", "n" * MAX_NAME_CHARS) == "n" * MAX_NAME_CHARS
    space = {**SPACE, "name": long}
    request = CompletionRequest({"model": MODEL, "input": "hi", "tools": [space]}, MODEL)
    written = json.loads(EXCHANGE.write_request(request, Target("theirs")).data)
    (name, _) = (tool["function"]["name"] for tool in written["tools"])
    assert read_tool_names({"tools": [space]})[name] == ToolName("f", long)


def test_names_lead_back_to_the_callers_tools() -> None:
    assert read_tool_names({"tools": [TOOL, PATCH, SPACE, SEARCH], "input": "hi"}) == {
        "f": ToolName("f"),
        "patch": ToolName("patch", is_custom=True),
        "ns__f": ToolName("f", "ns"),
        "ns__c": ToolName("c", "ns", is_custom=True),
    }
    assert read_tool_names({}) == {}


def decode(*fragments: str) -> str:
    decoder = InputDecoder()
    return "".join(map(decoder.feed, fragments)) + decoder.close()


@each_row("ascii_only", [True, False])
@each_row("text", ["", 'a "b"\n\\u00e9 \\', "é\U0001f600\u2028", "\ud83d!", "\udc00\\\ud83d"])
def test_every_split_point_gives_the_same_text(text: str, ascii_only: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    for first in range(len(arguments)):
        for second in range(first, len(arguments)):
            pieces = (arguments[:first], arguments[first:second], arguments[second:])
            assert decode(*pieces) == mend_halves(text)


def test_text_leaves_as_it_comes() -> None:
    decoder = InputDecoder()
    assert decoder.feed(' {"input" : "a') == "a"
    assert decoder.feed("b\\") == "b"
    assert decoder.feed("nc") == "\nc"
    assert decoder.feed('\\ud83d\\ude00"') == "\U0001f600"
    assert decoder.feed(" }") == ""
    assert decoder.close() == ""


@each_row(
    ("arguments", "text"),
    [
        ("plain words", "plain words"),
        ('"a\\nb"', "a\nb"),
        ('{"other":"a"}', '{"other":"a"}'),
        ('{"other":1,"input":"a"}', "a"),
        ('{"input":{"a":1}}', '{"input":{"a":1}}'),
        ('{"input":"cut \\u00', "cut \\u00"),
        ('{"input":"cut', "cut"),
        ('{"input":"line\nfeed"}', "line\nfeed"),
        ('{"input":"\\x \\uZZ"}', "\\x \\uZZ"),
        ("", ""),
        (" " * MAX_OPENING_CHARS + '{"input":"a"}', "a"),
    ],
)
def test_arguments_of_any_shape_lose_nothing(arguments: str, text: str) -> None:
    assert read_input(arguments) == decode(*arguments) == text


@pytest.mark.slow
def test_a_long_text_in_short_pieces_takes_linear_time() -> None:
    for opening in ('{"input":"', '{"other":"'):
        decoder = InputDecoder()
        begun = time.process_time()
        decoder.feed(opening)
        for _ in range(200_000):
            decoder.feed("abcd")
        decoder.close()
        assert time.process_time() - begun < 10


def test_the_request_is_echoed() -> None:
    asked: dict[str, Any] = {
        "stream": True,
        "instructions": "Be brief.",
        "tools": [{"type": "function", "name": "f", "parameters": {}, "strict": False}],
        "tool_choice": "required",
        "parallel_tool_calls": False,
        "temperature": 0.5,
        "top_p": 0.0,
        "max_output_tokens": 9,
        "metadata": {"a": "b"},
        "reasoning": {"effort": "low"},
        "text": {"verbosity": "low"},
        "user": "u",
    }
    response = read_response(play_whole(stream(text("a")), asked))
    told = {key: response[key] for key in asked if key not in {"stream", "text"}}
    assert told == {key: value for key, value in asked.items() if key in told}
    assert response["text"] == {"format": {"type": "text"}, "verbosity": "low"}
    assert (response["store"], response["model"]) == (False, "our/model")


def test_an_effort_that_was_not_sent_is_not_told() -> None:
    context = make_context({"reasoning": {"effort": "high", "summary": "auto"}}, usage=True)
    context.effort_sent = False
    reply = EXCHANGE.read_reply(dump(completion({"content": "hi"})), context)
    assert json.loads(reply.body)["reasoning"] == {"effort": None, "summary": "auto"}


def test_position_is_where_an_error_would_continue() -> None:
    """The numbers go on, the id stays, and what was done is told."""
    writer = ResponseWriter(make_context(usage=True))
    assert writer.position is None
    writer.open(ReplyUsage(Tokens(), estimated=False, reported=None))
    writer.write(chunk(choice({"reasoning_content": "hm"})))
    writer.write(chunk(text("a")))
    sent = read_events(writer.take())
    position = writer.position
    assert position is not None
    assert position["sequence_number"] == len(sent)
    response = position["response"]
    assert [item["type"] for item in response["output"]] == ["reasoning"]
    failed = {**response, "status": "failed", "error": {"code": "server_error", "message": "no"}}
    last = {"type": "response.failed", "response": failed, "sequence_number": len(sent)}
    assert add_up_response([*sent, last]).status == "failed"
    writer.flush()
    writer.close(ReplyUsage(REPORTED, estimated=False, reported=None))
    before = len(sent) + len(read_events(writer.take()))
    assert writer.position is not None
    assert writer.position["sequence_number"] == before
    assert read_events(writer.take_last())[0]["sequence_number"] == before


def test_what_comes_back_stands_before_the_text_or_alone() -> None:
    """State for the upstream gets an item of its own where no reasoning carries it."""
    writer = ResponseWriter(make_context(usage=True, tag="gw1.00000000."))
    details = choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})
    writer.write(chunk(details, text("Hi"), details))
    writer.flush()
    done = [one["item"] for one in read_events(writer.take()) if "item.done" in one["type"]]
    assert [item["type"] for item in done] == ["reasoning", "message", "reasoning"]
    assert all(item["encrypted_content"].startswith("gw1.") for item in done[::2])


def test_a_reply_is_not_held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_choice, "MAX_BUFFERED_CHARS", 4)
    assert play_whole(stream(text("abcd"))).complete
    drawn = choice({"images": [{"image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]})
    for choices in ([text("abc"), text("de")], [fragment(0, "abcde", id="c")], [drawn]):
        played = play_whole(stream(*choices))
        assert played.failure == "The upstream's reply is too large."
        assert not played.complete


def test_long_arguments_are_not_read_with_each_fragment() -> None:
    call = first_choice.Call(is_open=True)
    for _ in range(first_choice.MAX_JUDGEMENTS):
        call.fragments.append('{"a": "}')
        assert not call.judge_whole()
    call.fragments = ["{}"]
    assert not call.judge_whole()
    assert first_choice.Call(fragments=["{", "}\n"], is_open=True).judge_whole()


MODELS: dict[Kind, type[BaseModel]] = {
    "reasoning": Summary,
    "refusal": ResponseOutputRefusal,
    "text": ResponseOutputText,
}


@each_row("kind", FORMS)
def test_a_part_is_what_the_models_say(kind: Kind) -> None:
    part = MODELS[kind].model_validate(make_part(kind, "a"), strict=True)
    assert getattr(part, FORMS[kind].key) == "a"
    assert make_part(kind, "a")[FORMS[kind].key] == "a"


def test_a_summary_is_text_alone() -> None:
    """Whatever else the model makes: pictures, calls and their arguments, reasoning."""
    drawn = choice({"images": [{"image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}]})
    asked = {"input": [{"type": "compaction_trigger"}]}
    data = stream(
        choice({"reasoning_content": "hm"}), drawn, text("a"), fragment(0, "{}", id="c"), drawn
    )
    response = read_response(play_whole(data, asked))
    assert [one["type"] for one in response["output"]] == ["compaction"]


async def test_a_summary_in_the_making_keeps_its_stream_alive(
    launch: Launch, alpha: ScriptedUpstream
) -> None:
    """The model's words wait until all are there, and silence would end the connection."""
    quiet = launch(server="comment_seconds = 0.1", kinds={"plain": config.Kind(("alpha",), 1)})
    events = [*map(chunked, CHAT_PROVIDER.events(Content("The user wants a lamp.")))]
    gates = [asyncio.Event() for _ in events]
    waits = [
        step for gate, event in zip(gates, events, strict=True) for step in (Wait(gate), event)
    ]
    alpha.play([stream_head(), *waits, LAST_CHUNK])
    items = [{"role": "user", "content": "Hi"}, {"type": "compaction_trigger"}]
    body = {"model": "plain/0", "input": items, "stream": True}
    async with quiet.gateway.chatting(quiet.callers["rich"].key, body, RESPONSES) as call:
        for gate in gates:
            await call.read_until(b": keep-alive")
            gate.set()
        last = read_events((await call.read_all()).body)[-1]
    assert [one["type"] for one in last["response"]["output"]] == ["compaction"]
