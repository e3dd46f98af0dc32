"""Chat streams as Responses streams: items, calls, parts, and what is charged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from openai.types.responses import ResponseOutputRefusal, ResponseOutputText
from openai.types.responses.response_reasoning_item import Summary
from pydantic import BaseModel

from gateway.dialects import to_chat
from gateway.dialects.exchanges import TRANSLATIONS
from gateway.dialects.records import Usage
from gateway.dialects.responses_over_chat.reply import make_part
from gateway.dialects.responses_over_chat.stream import FORMS, ResponseWriter
from gateway.dialects.to_chat import Kind
from gateway.money import Tokens
from tests.dialects.chat.kit import DONE, Json, choice, chunk, event, role, stop, text
from tests.dialects.messages_over_chat.kit import (
    INTERLEAVED,
    USAGE,
    USED,
    begin,
    fragment,
    read_events,
    stream,
)
from tests.dialects.responses_over_chat.kit import (
    PATCH,
    SPACE,
    accumulate,
    items_of,
    kinds_of,
    make_context,
    open_stream,
    play_whole,
    read_response,
)
from tests.support.rows import each_row


def test_plain_stream_event_by_event() -> None:
    played = play_whole(stream(text("he"), text("llo")))
    created, progress, *rest = read_events(played.out)
    assert created["response"] == progress["response"]
    assert created["response"]["created_at"] == 1
    place = {"item_id": "msg_request-1_0", "output_index": 0, "content_index": 0}
    item = {"id": "msg_request-1_0", "type": "message", "role": "assistant", "content": []}
    part = {"type": "output_text", "text": "", "annotations": [], "logprobs": []}
    whole = {**part, "text": "hello"}
    done = {**item, "status": "completed", "content": [whole]}
    kinds = {"delta": "response.output_text.delta", "done": "response.output_text.done"}
    expected: list[Json] = [
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        {"type": "response.content_part.added", **place, "part": part},
        {"type": kinds["delta"], **place, "delta": "he", "logprobs": []},
        {"type": kinds["delta"], **place, "delta": "llo", "logprobs": []},
        {"type": kinds["done"], **place, "text": "hello", "logprobs": []},
        {"type": "response.content_part.done", **place, "part": whole},
        {"type": "response.output_item.done", "output_index": 0, "item": done},
    ]  # fmt: skip
    assert rest[:-1] == [
        {**one, "sequence_number": number} for number, one in enumerate(expected, 2)
    ]
    assert rest[-1]["type"] == "response.completed"
    response = read_response(played)
    assert (response["status"], response["output"]) == ("completed", [done])
    assert (played.tokens, played.estimated) == (USED, False)


def test_every_event_leaves_as_soon_as_it_can() -> None:
    """Text leaves with its chunk, items end with the finish reason, the last event by `finish`."""
    pipeline = open_stream()
    assert kinds_of(pipeline.feed(event(chunk(role())))) == ["created", "in_progress"]
    assert pipeline.begun
    assert not pipeline.delivered
    said = pipeline.feed(event(chunk(text("a"))))
    assert kinds_of(said) == ["output_item.added", "content_part.added", "output_text.delta"]
    assert pipeline.delivered
    assert not pipeline.finished
    ended = ["output_text.done", "content_part.done", "output_item.done"]
    assert kinds_of(pipeline.feed(event(chunk(stop())))) == ended
    assert (pipeline.finished, pipeline.complete) == (True, False)
    assert pipeline.feed(event(chunk(usage=USAGE))) == b""
    assert pipeline.feed(DONE) == b""
    assert pipeline.complete
    assert kinds_of(pipeline.finish()) == ["completed"]


@each_row("key", ["reasoning", "reasoning_content"])
def test_reasoning_under_either_name_is_a_summary(key: str) -> None:
    played = play_whole(stream(choice({key: "hm", "content": ""}), text("a")))
    assert items_of(read_response(played)) == [("reasoning", "hm"), ("output_text", "a")]
    kinds = kinds_of(played.out)[2:8]
    assert kinds == [
        "output_item.added",
        "reasoning_summary_part.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "reasoning_summary_part.done",
        "output_item.done",
    ]


def test_only_the_last_item_is_cut_off() -> None:
    response = read_response(play_whole(stream(begin(0, "{}"), begin(1, "{"), finish="length")))
    assert [item["status"] for item in response["output"]] == ["completed", "incomplete"]


def test_refusal_is_a_part_of_the_message() -> None:
    refusal = (text("a"), choice({"refusal": "N"}), choice({"refusal": "o."}))
    played = play_whole(stream(*refusal))
    response = read_response(played)
    assert items_of(response) == [("output_text", "a"), ("refusal", "No.")]
    assert len(response["output"]) == 1
    places = [one["content_index"] for one in read_events(played.out) if "content_index" in one]
    assert places == [0] * 4 + [1] * 5


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


def test_position_is_where_an_error_would_continue() -> None:
    """The numbers go on, the id stays, and what was done is told."""
    translation = TRANSLATIONS["responses", "chat"]
    writer = translation.open_writer(make_context())
    assert isinstance(writer, ResponseWriter)
    assert writer.position is None
    writer.open(Usage(Tokens(), estimated=False, reported=None))
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
    assert accumulate([*sent, last]).status == "failed"
    writer.flush()
    writer.close(Usage(USED, estimated=False, reported=None))
    before = len(sent) + len(read_events(writer.take()))
    assert writer.position is not None
    assert writer.position["sequence_number"] == before
    assert read_events(writer.finish())[0]["sequence_number"] == before


def test_what_comes_back_stands_before_the_text_or_alone() -> None:
    """State for the upstream gets an item of its own where no reasoning carries it."""
    writer = ResponseWriter(replace(make_context(), provider_tag="gw1.00000000."))
    details = choice({"reasoning_details": [{"type": "reasoning.encrypted", "data": "x"}]})
    writer.write(chunk(details, text("Hi"), details))
    writer.flush()
    done = [one["item"] for one in read_events(writer.take()) if "item.done" in one["type"]]
    assert [item["type"] for item in done] == ["reasoning", "message", "reasoning"]
    assert all(item["encrypted_content"].startswith("gw1.") for item in done[::2])


def test_a_call_event_by_event() -> None:
    played = play_whole(stream(begin(0), fragment(0, '{"a"'), fragment(0, ":1}")))
    read_response(played)
    item = {"id": "fc_request-1_0", "type": "function_call", "call_id": "c0", "name": "f0"}
    place = {"item_id": "fc_request-1_0", "output_index": 0}
    arguments = "response.function_call_arguments"
    added = {**item, "arguments": "", "status": "in_progress"}
    whole = {"arguments": '{"a":1}'}
    expected: list[Json] = [
        {"type": "response.output_item.added", "output_index": 0, "item": added},
        {"type": f"{arguments}.delta", **place, "delta": '{"a"'},
        {"type": f"{arguments}.delta", **place, "delta": ":1}"},
        {"type": f"{arguments}.done", **place, **whole, "name": "f0"},
        {
            "type": "response.output_item.done",
            "output_index": 0,
            "item": {**item, **whole, "status": "completed"},
        },
    ]
    assert read_events(played.out)[2:-1] == [
        {**one, "sequence_number": number} for number, one in enumerate(expected, 2)
    ]


def hear(*choices: Json, tools: list[Json] | None = None) -> Json:
    body = {"stream": True, "tools": tools or []}
    return read_response(play_whole(stream(*choices, finish="tool_calls"), body))


def test_fragments_of_all_calls_leave_at_once() -> None:
    kinds = kinds_of(play_whole(stream(*INTERLEAVED)).out)[2:-1]
    delta, done = "function_call_arguments.delta", "function_call_arguments.done"
    ends = [done, "output_item.done"] * 2
    assert kinds == ["output_item.added"] * 2 + [delta] * 4 + ends


@each_row("blank", ["", " "])
def test_a_call_without_arguments_gets_an_empty_object(blank: str) -> None:
    given = [fragment(0, blank)] * bool(blank)
    assert hear(begin(0), *given)["output"][0]["arguments"] == blank + "{}"


def test_a_custom_call_event_by_event() -> None:
    arguments = (fragment(0, '{"inp'), fragment(0, 'ut":"a\\'), fragment(0, 'nb"}'))
    begun = fragment(0, "", id="c0", name="patch")
    played = play_whole(stream(begun, *arguments), {"stream": True, "tools": [PATCH]})
    assert items_of(read_response(played)) == [("custom_tool_call", "c0", "", "patch", "a\nb")]
    added, *deltas, done, ended = read_events(played.out)[2:-1]
    assert (added["item"]["id"], added["item"]["input"]) == ("ctc_request-1_0", "")
    assert [(one["type"], one["delta"]) for one in deltas] == [
        ("response.custom_tool_call_input.delta", "a"),
        ("response.custom_tool_call_input.delta", "\nb"),
    ]
    assert (done["type"], done["input"]) == ("response.custom_tool_call_input.done", "a\nb")
    assert ended["item"]["status"] == "completed"


def test_tools_of_a_namespace_get_their_names_back() -> None:
    calls = (
        fragment(0, "{}", id="c0", name="ns__f"),
        fragment(1, '{"input":"x"}', id="c1", name="ns__c"),
        fragment(2, "{}", id="c2", name="ns__unknown"),
    )
    assert items_of(hear(*calls, tools=[SPACE])) == [
        ("function_call", "c0", "ns", "f", "{}"),
        ("custom_tool_call", "c1", "ns", "c", "x"),
        ("function_call", "c2", "", "ns__unknown", "{}"),
    ]


def test_a_reply_is_not_held_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(to_chat, "MAX_HELD_CHARS", 4)
    assert play_whole(stream(text("abcd"))).complete
    for choices in ([text("abc"), text("de")], [fragment(0, "abcde", id="c")]):
        played = play_whole(stream(*choices))
        assert played.failure == "The upstream's reply is too large."
        assert not played.complete


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
