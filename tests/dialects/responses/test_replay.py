"""A response written as a stream: the stream says the same."""

from __future__ import annotations

import json

from gateway.dialects.exchanges import EXCHANGES
from gateway.dialects.responses.upstream import replay_response
from gateway.money import Tokens
from tests.dialects.chat.kit import play
from tests.dialects.responses.kit import call, make_context, make_response, message, read_events
from tests.support.rows import each_row

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}]}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "d", "name": "p", "input": "*** x"}
REFUSAL = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No"}, "odd"]}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}
USAGE = {"input_tokens": 9, "output_tokens": 3, "total_tokens": 12}


@each_row("status", ["completed", "incomplete"])
def test_every_item_is_begun_filled_and_done(status: str) -> None:
    items = [REASONING, message("Hi"), call('{"a":1}'), CUSTOM, REFUSAL, SEARCH]
    response = make_response(*items, status=status, usage=USAGE)
    events = read_events(replay_response(response))
    kinds = [one["type"] for one in events]
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert events[-1] == {
        "type": f"response.{status}", "sequence_number": len(events) - 1, "response": response,
    }  # fmt: skip
    done = [one["item"] for one in events if one["type"] == "response.output_item.done"]
    assert done == items
    said = [one["delta"] for one in events if one["type"].endswith(".delta")]
    assert said == ["Hm", "Hi", '{"a":1}', "*** x", "No"]
    assert kinds.count("response.output_item.added") == len(items)


def test_nothing_is_said_before_its_event() -> None:
    """SDKs gather the text from the events, so what begins with it would have it twice."""
    items = [REASONING, message("Hi"), call('{"a":1}'), CUSTOM, REFUSAL]
    events = read_events(replay_response(make_response(*items, usage=USAGE)))
    assert [(one["response"]["output"], one["response"]["usage"]) for one in events[:2]] == [
        ([], None), ([], None),
    ]  # fmt: skip
    added = [one["item"] for one in events if one["type"] == "response.output_item.added"]
    filled = ("summary", "content", "arguments", "input", "content")
    assert [one[name] for one, name in zip(added, filled, strict=True)] == [[], [], "", "", []]


def test_a_response_without_an_end_has_none_as_a_stream() -> None:
    events = read_events(replay_response(make_response(message("Hi"), status="in_progress")))
    assert events[-1]["type"] == "response.output_item.done"


def test_a_caller_of_a_stream_gets_one() -> None:
    response = make_response(message("Hi"), usage=USAGE)
    pipeline = EXCHANGES["responses"]["responses"].open_replay(make_context())
    played = play(pipeline, [json.dumps(response).encode()])
    assert (played.complete, played.tokens) == (True, Tokens(9, output=3))
    assert read_events(played.out)[-1]["response"]["model"] == "our/model"
