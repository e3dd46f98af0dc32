"""Chat streams as Responses streams: items, calls, parts, and what is charged."""

from __future__ import annotations

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
from tests.dialects.chat.kit import (
    DONE,
    INPUT_ESTIMATE,
    Json,
    choice,
    chunk,
    each_byte,
    event,
    events,
    play,
    role,
    stop,
    text,
)
from tests.dialects.messages_over_chat.kit import AZURE, INTERLEAVED, SEQUENTIAL, begin, fragment
from tests.dialects.responses_over_chat.kit import (
    PATCH,
    SPACE,
    USAGE,
    USED,
    accumulate,
    items_of,
    kinds_of,
    make_context,
    open_stream,
    play_whole,
    read_events,
    read_response,
    stream,
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


def test_kinds_never_overlap_and_indexes_are_contiguous() -> None:
    hm = choice({"reasoning_content": "hm"})
    played = play_whole(stream(hm, text("a"), hm, text("b"), begin(0, "{}"), text("c")))
    response = read_response(played)
    assert items_of(response) == [
        ("reasoning", "hm"),
        ("output_text", "a"),
        ("reasoning", "hm"),
        ("output_text", "b"),
        ("function_call", "c0", "", "f0", "{}"),
        ("output_text", "c"),
    ]


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


def test_parts_of_content_are_read() -> None:
    thought = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    parts = choice({"content": [thought, {"type": "text", "text": "a"}]})
    response = read_response(play_whole(stream(parts)))
    assert items_of(response) == [("reasoning", "hm"), ("output_text", "a")]


@each_row(
    ("finish", "status", "reason"),
    [
        ("stop", "completed", None),
        ("tool_calls", "completed", None),
        ("eos", "completed", None),
        ("length", "incomplete", "max_output_tokens"),
        ("model_length", "incomplete", "max_output_tokens"),
        ("content_filter", "incomplete", "content_filter"),
    ],
)
def test_endings(finish: str, status: str, reason: str | None) -> None:
    hm = choice({"reasoning_content": "hm"})
    response = read_response(play_whole(stream(hm, text("a"), finish=finish)))
    details = {"reason": reason} if reason else None
    assert (response["status"], response["incomplete_details"]) == (status, details)
    assert response["output"][-1]["status"] == status


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


def test_an_upstream_that_ends_in_an_error_fails() -> None:
    played = play_whole(stream(text("a"), finish="error"))
    assert (played.complete, played.failure) == (
        False,
        "The upstream ended its reply with an error.",
    )


LAST_USAGE = {"prompt_tokens": 7, "completion_tokens": 4, "total_tokens": 20}

CACHED = {
    **USAGE,
    "prompt_tokens_details": {"cached_tokens": 2, "cache_write_tokens": 1},
    "completion_tokens_details": {"reasoning_tokens": 2},
}


@each_row(
    ("chunks", "tokens", "reasoning"),
    [
        # Its own chunk; with the finish reason; in every chunk (the last counts); output left out.
        ([chunk(stop()), chunk(usage=USAGE)], USED, 0),
        ([chunk(stop(), usage=USAGE)], USED, 0),
        ([chunk(text("b"), usage=USAGE), chunk(stop(), usage=LAST_USAGE)], Tokens(7, 0, 0, 13), 0),
        ([chunk(stop()), chunk(usage=CACHED)], Tokens(2, 2, 1, 3), 2),
    ],
)
def test_usage_told_is_the_usage_charged(
    chunks: list[Json], tokens: Tokens, reasoning: int
) -> None:
    played = play_whole(events(chunk(role()), chunk(text("a")), *chunks) + DONE)
    assert read_response(played)["usage"] == {
        "input_tokens": tokens.all_input,
        "input_tokens_details": {
            "cached_tokens": tokens.cached_input,
            "cache_write_tokens": tokens.cache_write,
        },
        "output_tokens": tokens.output,
        "output_tokens_details": {"reasoning_tokens": reasoning},
        "total_tokens": tokens.total,
    }
    assert (played.tokens, played.estimated) == (tokens, False)


def test_usage_that_is_not_reported_is_estimated() -> None:
    played = play_whole(stream(text("abcdef"), usage=None))
    usage = read_response(played)["usage"]
    assert (usage["input_tokens"], usage["output_tokens"]) == (INPUT_ESTIMATE, 2)
    assert played.estimated


def test_a_nameless_tool_fails() -> None:
    played = play_whole(stream(fragment(0, "{}", id="c"), finish="tool_calls"))
    assert played.failure == "The upstream called a tool without naming it."
    assert not played.complete


@each_row(
    "data",
    [
        stream(text("a")).replace(b"\n", b"\r\n"),
        stream(text("a")).replace(b"\n", b"\r"),
        stream(text("a")).replace(b"data: ", b"data:"),
        stream(text("a")).replace(DONE, b"data: [DONE] \n\n"),
        stream(text("a")) + event(chunk(text("late"))),
        event(AZURE) + stream(text("a")),
    ],
)
def test_whatever_the_framing_the_response_is_the_same(data: bytes) -> None:
    for pieces in ([data], each_byte(data)):
        played = play(open_stream(), pieces)
        assert items_of(read_response(played)) == [("output_text", "a")]
        assert played.tokens == USED


def test_only_the_first_choice_is_told() -> None:
    played = play_whole(stream(text("a"), text("other", index=1)))
    assert items_of(read_response(played)) == [("output_text", "a")]


def test_lone_surrogates_pass_as_escapes() -> None:
    halves = [
        event(chunk(text("HERE"))).replace(b"HERE", half) for half in (b"\\ud83d", b"\\ude00")
    ]
    out = play_whole(event(chunk(role())) + b"".join(halves) + event(chunk(stop())) + DONE).out
    assert b'"\\ud83d"' in out
    assert b'"\\ude00"' in out


def test_comments_pass() -> None:
    played = play_whole(b": busy\n\n" + stream(text("a")))
    assert played.out.startswith(b": busy\n\nevent: response.created\n")


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


BOTH = [
    ("function_call", "c0", "", "f0", '{"a":1}'),
    ("function_call", "c1", "", "f1", '{"b":2}'),
]


def hear(*choices: Json, tools: list[Json] | None = None) -> Json:
    body = {"stream": True, "tools": tools or []}
    return read_response(play_whole(stream(*choices, finish="tool_calls"), body))


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


@each_row("choices", [SEQUENTIAL, INTERLEAVED])
def test_calls_in_any_order_are_told_apart(choices: list[Json]) -> None:
    assert items_of(hear(*choices)) == BOTH


def test_fragments_of_all_calls_leave_at_once() -> None:
    kinds = kinds_of(play_whole(stream(*INTERLEAVED)).out)[2:-1]
    delta, done = "function_call_arguments.delta", "function_call_arguments.done"
    ends = [done, "output_item.done"] * 2
    assert kinds == ["output_item.added"] * 2 + [delta] * 4 + ends


@each_row("blank", ["", " ", "\n"])
def test_a_call_without_arguments_gets_an_empty_object(blank: str) -> None:
    given = [] if not blank else [fragment(0, blank)]
    assert items_of(hear(begin(0), *given)) == [
        ("function_call", "c0", "", "f0", blank + "{}"),
    ]


def test_arguments_as_an_object_are_written() -> None:
    call = {"index": 0, "id": "c0", "function": {"name": "f0", "arguments": {"a": 1}}}
    assert items_of(hear(choice({"tool_calls": [call]}))) == BOTH[:1]


def test_a_late_name_is_waited_for() -> None:
    late = (fragment(0, '{"a"', id="c0"), fragment(0, ":1}", name="f0"))
    assert items_of(hear(*late)) == BOTH[:1]


def test_a_call_without_id_gets_one() -> None:
    response = hear(fragment(0, "{}", name="f"), fragment(1, "{}", name="g"))
    assert [item["call_id"] for item in response["output"]] == [
        "call_request-1_0",
        "call_request-1_1",
    ]


def test_calls_at_one_position_are_told_apart_by_their_ids() -> None:
    calls = (fragment(0, '{"a":1}', id="c0", name="f0"), fragment(0, '{"b":2}', id="c1", name="f1"))
    assert items_of(hear(*calls)) == BOTH


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


def test_text_ends_before_a_call_and_a_call_stays_open_behind_text() -> None:
    played = play_whole(stream(text("a"), begin(0), text("b"), fragment(0, "{}")))
    assert items_of(read_response(played)) == [
        ("output_text", "a"),
        ("function_call", "c0", "", "f0", "{}"),
        ("output_text", "b"),
    ]


def test_arguments_behind_the_end_fail_and_white_space_does_not() -> None:
    over = [choice({}, "tool_calls")]
    played = play_whole(stream(begin(0, "{}"), *over, fragment(0, "x")))
    assert played.failure == "The upstream added to a tool call that was complete."
    assert items_of(hear(begin(0, "{}"), *over, fragment(0, " "))) == [
        ("function_call", "c0", "", "f0", "{}")
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
