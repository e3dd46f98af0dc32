"""Responses replies and streams as chat completions and chunks, event by event."""

from __future__ import annotations

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletion

from gateway.dialects.chat_over_responses import CHAT_OVER_RESPONSES
from gateway.errors import UpstreamError
from tests.dialects.chat.kit import MODEL, Played, check_stream, play
from tests.dialects.chat_over_messages.kit import CREATED, make_context
from tests.dialects.chat_over_responses.kit import (
    ITEMS,
    REASONED,
    SPOKEN,
    STARTED,
    USAGE,
    added,
    argue,
    begin_tool,
    call,
    custom,
    done,
    end,
    event,
    frame,
    make_usage,
    message,
    open_stream,
    play_events,
    read_tokens,
    reasoning,
    refusal,
    text,
    told,
    write_items,
)
from tests.support.rows import each_row

Json = dict[str, Any]
WHOLE = [*STARTED, *write_items(*ITEMS), end(usage=USAGE)]
SAID = [
    {"reasoning_content": "So "},
    {"reasoning_content": "so. "},
    {"reasoning_content": "\n\nH"},
    {"reasoning_content": "m."},
    {"content": "Grü"},
    {"content": "ße, "},
    {"content": "Wel"},
    {"content": "t 🎉"},
    begin_tool(0),
    argue(0, '{"a'),
    argue(0, '":1}'),
    begin_tool(1, "c2", "g"),
    argue(1, "{"),
    argue(1, "}"),
]


def test_stream_in_full() -> None:
    played = play(open_stream(make_context(usage=True)), [frame(*WHOLE)])
    assert (played.complete, played.failure) == (True, None)
    head = {
        "id": "chatcmpl-request-1",
        "object": "chat.completion.chunk",
        "created": CREATED,
        "model": MODEL,
    }
    assert all({**chunk, **head} == chunk for chunk in played.chunks)
    check_stream(played.chunks, usage=True)
    assert told(played) == [*SAID, "tool_calls"]
    assert played.chunks[-1]["usage"] == {
        "prompt_tokens": 10,
        "completion_tokens": 20,
        "total_tokens": 30,
        "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
        "completion_tokens_details": {"reasoning_tokens": 15},
    }
    assert (played.tokens, played.estimated) == (read_tokens(USAGE), False)
    assert played.out.endswith(b"data: [DONE]\n\n")


def test_events_are_passed_on_as_they_come() -> None:
    stream = open_stream()
    assert b'"role":"assistant"' in stream.feed(frame(WHOLE[0]))
    assert (stream.begun, stream.delivered) == (True, False)
    assert b'"content":"Hi"' in stream.feed(frame(event("output_text.delta", delta="Hi")))
    assert (stream.delivered, stream.complete) == (True, False)
    assert b'"finish_reason":"stop"' in stream.feed(frame(end()))
    assert stream.complete


def gather(played: Played) -> list[Any]:
    """Return what was said without the fragments: each key's text, and each call."""
    texts: dict[str, str] = {}
    calls: dict[int, list[str]] = {}
    for choice in played.choices:
        delta = choice["delta"]
        for key in ("reasoning_content", "content", "refusal"):
            texts[key] = texts.get(key, "") + (delta.get(key) or "")
        for part in delta.get("tool_calls", []):
            (held,) = (part[kind] for kind in ("function", "custom") if kind in part)
            made = calls.setdefault(part["index"], [part.get("id", ""), held.get("name", ""), ""])
            made[2] += held.get("arguments", held.get("input", ""))
    return [texts, list(calls.values()), played.choices[-1]["finish_reason"]]


ALL = (*ITEMS, message(refusal("No.")), custom("c3", "h", "raw"))


@each_row(
    "lacking",
    [
        (".delta",),
        (".delta", ".added"),
        (".added",),
        (".delta", "_text.done", "refusal.done", "_arguments.done", "_input.done", "_part.done"),
        ("output_item.done",),
        (".delta", "output_item.done"),
        (".delta", ".added", "_text.done", "refusal.done", "_arguments.done", "_input.done"),
    ],
)
def test_what_some_upstreams_leave_out_is_found_elsewhere(lacking: tuple[str, ...]) -> None:
    events = write_items(*ALL)
    kept = [each for each in events if not each["type"].endswith(lacking)]
    assert len(kept) < len(events)
    played = play_events(*kept, end())
    assert gather(played) == gather(play_events(*events, end()))
    check_stream(played.chunks, usage=False)


def test_items_are_told_apart_by_their_ids_where_they_have_no_index() -> None:
    events = write_items(*(item for item in ALL if item["type"] != "reasoning"))
    bare = []
    for each in events:
        index = each["output_index"]
        bare.append({key: held for key, held in each.items() if key != "output_index"})
        if "item_id" in each:
            bare[-1]["item_id"] = f"i{index}"
        else:
            bare[-1]["item"] = {**each["item"], "id": f"i{index}"}
    assert gather(play_events(*bare, end())) == gather(play_events(*events, end()))


@each_row(
    ("events", "expected"),
    [
        ([], ["stop"]),
        (write_items(reasoning(), message()), ["stop"]),
        (write_items(message(text("ab")), message(text("cd"))),
         [{"content": "a"}, {"content": "b"}, {"content": "\n\nc"}, {"content": "d"}, "stop"]),
        ([event("reasoning_text.delta", content_index=0, delta="hm"),
          event("reasoning_text.done", content_index=0, text="hm")],
         [{"reasoning_content": "hm"}, "stop"]),
        (write_items(message(refusal("No."))), [{"refusal": "N"}, {"refusal": "o."}, "stop"]),
        ([added(call(arguments="")), done(call(arguments=""))],
         [begin_tool(0), argue(0, "{}"), "tool_calls"]),
        ([added(call(arguments=""))], [begin_tool(0), argue(0, "{}"), "tool_calls"]),
        ([added(call()), added(call()), done(call()), done(call())],
         [begin_tool(0), argue(0, "{}"), "tool_calls"]),
        ([added(call(arguments="")), added(call("c2", "g", ""), 1),
          event("function_call_arguments.delta", 1, delta="["),
          event("function_call_arguments.delta", 0, delta="{"),
          event("function_call_arguments.delta", 0, delta=""),
          event("function_call_arguments.delta", 1, delta="]"),
          event("function_call_arguments.delta", 2, delta="lost"),
          event("function_call_arguments.done", 2, arguments="lost"),
          event("function_call_arguments.done", 0, arguments="")],
         [begin_tool(0), begin_tool(1, "c2", "g"), argue(1, "["), argue(0, "{"), argue(1, "]"),
          "tool_calls"]),
        (write_items(custom("c1", "f", "x")),
         [{"tool_calls": [{"index": 0, "id": "c1", "type": "custom",
                           "custom": {"name": "f", "input": ""}}]},
          {"tool_calls": [{"index": 0, "custom": {"input": "x"}}]}, "tool_calls"]),
        ([added({"type": "web_search_call"}), event("web_search_call.searching"),
          done({"type": "web_search_call"}), {"type": "response.unheard_of"}, {"type": "keepalive"}],
         ["stop"]),
    ],
)  # fmt: skip
def test_events_become_deltas(events: list[Json], expected: list[Any]) -> None:
    """Calls are numbered among themselves; one without arguments gets `{}`."""
    played = play_events(*events, end(usage=USAGE))
    assert played.complete
    check_stream(played.chunks, usage=False)
    assert told(played) == expected


@each_row(
    ("fields", "finish"),
    [
        ({}, "length"),
        ({"incomplete_details": {"reason": "max_output_tokens"}}, "length"),
        ({"incomplete_details": {"reason": "content_filter"}}, "content_filter"),
    ],
)
def test_an_incomplete_reply_says_why(fields: Json, finish: str) -> None:
    events = write_items(message(text("a")), call())
    played = play_events(*events, end("incomplete", usage=USAGE, **fields))
    assert played.choices[-1]["finish_reason"] == finish
    assert (played.tokens, played.estimated) == (read_tokens(USAGE), False)


def test_a_reply_that_failed_is_a_failure() -> None:
    error = {"code": "server_error", "message": "It broke."}
    played = play_events(*write_items(message(text("a"))), end("failed", USAGE, error=error))
    assert (played.complete, played.failure) == (False, "It broke.")
    assert played.choices[-1]["finish_reason"] is None
    assert played.tokens == read_tokens(USAGE)


def respond(*output: Any, status: str = "completed", **fields: Any) -> Json:
    held = {"id": "resp_1", "object": "response", "status": status, "model": "theirs"}
    return {**held, "output": list(output), "output_text": "never this", **fields}


def read(reply: Json, usage: Json | None = USAGE, **body: Any) -> Json:
    made = CHAT_OVER_RESPONSES.translate_reply(reply, make_context(**body), make_usage(usage))
    ChatCompletion.model_validate_json(json.dumps(made), strict=True)
    return made


def read_choice(*output: Any, body: Json | None = None, **fields: Any) -> Json:
    (choice,) = read(respond(*output, **fields), **(body or {}))["choices"]
    assert (choice["index"], choice["logprobs"]) == (0, None)
    return dict(choice)


def use(identity: str = "c1", name: str = "f", arguments: str = "{}") -> Json:
    function = {"name": name, "arguments": arguments}
    return {"id": identity, "type": "function", "function": function}


def test_reply_in_full() -> None:
    assert read(respond(*ITEMS)) == {
        "id": "chatcmpl-request-1",
        "object": "chat.completion",
        "created": CREATED,
        "model": MODEL,
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": SPOKEN,
                    "refusal": None,
                    "reasoning_content": REASONED,
                    "tool_calls": [use("c1", "f", '{"a":1}'), use("c2", "g")],
                },
                "logprobs": None,
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {
            "prompt_tokens": 10,
            "completion_tokens": 20,
            "total_tokens": 30,
            "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 1},
            "completion_tokens_details": {"reasoning_tokens": 15},
        },
    }


def test_an_estimated_usage_has_no_details() -> None:
    usage = read(respond(message(text("a"))), usage=None)["usage"]
    assert usage == {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}


@each_row(
    ("output", "expected"),
    [
        ([], {"content": ""}),
        ([message(text("a")), message(text("b"))], {"content": "a\n\nb"}),
        ([message(refusal("No."))], {"content": "", "refusal": "No."}),
        ([reasoning()], {"content": ""}),
        ([reasoning("a", "b"), message(text("c")), reasoning("d")],
         {"content": "c", "reasoning_content": "a\n\nb\n\nd"}),
        ([{"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
          message(text("c"))], {"content": "c", "reasoning_content": "hm"}),
        ([call(arguments="")], {"content": None, "tool_calls": [use()]}),
        ([custom("c1", "f", "x"), custom("c2", "g")],
         {"content": None,
          "tool_calls": [{"id": "c1", "type": "custom", "custom": {"name": "f", "input": "x"}},
              {"id": "c2", "type": "custom", "custom": {"name": "g", "input": ""}}]}),
        ([{"type": "web_search_call", "content": [text("not said")]}, {"type": []},
          {"type": "message", "content": [7, {"type": []}, {"type": "new"}, text("a")]},
          {"type": "message", "content": "b"}, "nonsense"], {"content": "a"}),
    ],
)  # fmt: skip
def test_items_become_one_message(output: list[Any], expected: Json) -> None:
    made = read_choice(*output)["message"]
    assert made == {"role": "assistant", "refusal": None, **expected}


@each_row(
    ("item", "fields", "finish"),
    [
        (message(text("a")), {}, "stop"),
        (message(refusal("a")), {}, "stop"),
        (call(), {}, "tool_calls"),
        (custom(), {"status": None}, "tool_calls"),
        (message(text("a")), {"status": "incomplete"}, "length"),
        (call(), {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
         "length"),
        (message(text("a")),
         {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, "content_filter"),
    ],
)  # fmt: skip
def test_finish_reasons(item: Json, fields: Json, finish: str) -> None:
    assert read_choice(item, **fields)["finish_reason"] == finish


@each_row(
    ("status", "error", "said"),
    [
        ("failed", {"code": "server_error", "message": "It broke."}, "It broke."),
        ("failed", None, "ended its reply with an error"),
        ("cancelled", None, "ended its reply with an error"),
    ],
)
def test_a_reply_that_failed_is_the_upstreams_fault(
    status: str, error: Json | None, said: str
) -> None:
    with pytest.raises(UpstreamError, match=said):
        read(respond(message(text("a")), status=status, error=error))


def test_a_caller_of_functions_gets_a_function_call_in_a_reply() -> None:
    body = {"functions": [{"name": "f"}]}
    choice = read_choice(call(arguments='{"a":1}'), call("c2"), body=body)
    assert choice["finish_reason"] == "function_call"
    assert choice["message"]["function_call"] == {"name": "f", "arguments": '{"a":1}'}
    assert "tool_calls" not in choice["message"]
