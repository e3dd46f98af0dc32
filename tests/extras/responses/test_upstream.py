"""Responses upstreams: JSON replies as read, passed on and replayed. `requests` has the requests as sent."""

from __future__ import annotations

import json

import pytest

from gateway.base.errors import UndeliverableReply, UpstreamError
from gateway.base.money import Tokens
from gateway.base.prices import UNSAID, BillTerms
from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.exchanges import ReplayedStream
from gateway.extras.responses.replay import replay_response
from gateway.extras.responses.stream import read_responses_usage
from gateway.extras.responses.upstream import ResponsesUpstream
from tests.dialects.chat.kit import play
from tests.extras.responses.kit import (
    TAG,
    USAGE,
    call,
    make_context,
    make_response,
    message,
    read_events,
)
from tests.support.formats import EXCHANGES
from tests.support.rows import each_row

REASONING = {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "Hm"}]}
CUSTOM = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "d", "name": "p", "input": "*** x"}
REFUSAL = {"type": "message", "id": "m", "content": [{"type": "refusal", "refusal": "No"}, "odd"]}
SEARCH = {"type": "web_search_call", "id": "ws_1", "status": "completed"}


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
    added = [one["item"] for one in events if one["type"] == "response.output_item.added"]
    assert [one["type"] for one in added] == [one["type"] for one in items]
    # SDKs gather the text from the events, so what begins with it would have it twice.
    for name, empty, number in (
        ("summary", [], 0),
        ("content", [], 1),
        ("arguments", "", 2),
        ("input", "", 3),
        ("content", [], 4),
    ):
        assert added[number][name] == empty
    begun = [(one["response"]["output"], one["response"]["usage"]) for one in events[:2]]
    assert begun == [([], None)] * 2


def test_a_response_without_an_end_has_none_as_a_stream() -> None:
    events = read_events(replay_response(make_response(message("Hi"), status="in_progress")))
    assert events[-1]["type"] == "response.output_item.done"


def test_a_caller_of_a_stream_gets_one() -> None:
    response = make_response(message("Hi"), usage=USAGE)
    played = play(ReplayedStream(EXCHANGE, make_context()), [json.dumps(response).encode()])
    assert (played.complete, played.tokens) == (True, Tokens(9, output=3))
    events = read_events(played.out)
    assert events[-1]["response"]["model"] == "our/model"


UPSTREAM = ResponsesUpstream()
EXCHANGE = EXCHANGES["responses"]["responses"]


@each_row("status", ["completed", "incomplete"])
def test_a_reply_passes_but_for_the_model_and_what_is_sealed(status: str) -> None:
    sealed = {"type": "reasoning", "summary": [], "encrypted_content": "gA"}
    reply = make_response(sealed, message("Hi"), status=status, usage=USAGE, service_tier="default")
    body = json.dumps(reply, indent=1).encode()
    passed = EXCHANGE.read_reply(body + b"\n", make_context())
    assert passed.body == body.replace(b"theirs", b"our/model").replace(
        b'"gA"', b'"%bgA"' % TAG.encode()
    )
    assert (passed.metered.tokens, passed.metered.estimated) == (Tokens(9, output=3), False)


def test_a_reply_has_the_counts_that_clients_read() -> None:
    bare = {"input_tokens": 9, "output_tokens": 3}
    reply = json.dumps(make_response(message("Hi"), usage=bare)).encode()
    told = json.loads(EXCHANGE.read_reply(reply, make_context()).body)
    assert (told["usage"], told["model"]) == (USAGE, "our/model")


def test_a_reply_without_a_usage_is_estimated_by_its_text() -> None:
    reply = make_response(message("12345678"), call("1234"))
    passed = EXCHANGE.read_reply(json.dumps(reply).encode(), make_context())
    assert (passed.metered.tokens, passed.metered.estimated) == (Tokens(7, output=3), True)


def test_a_reply_that_says_no_end_is_cut_short() -> None:
    reply = make_response(message("Hi"), status="in_progress", usage=USAGE)
    passed = EXCHANGE.read_reply(json.dumps(reply).encode(), make_context())
    assert isinstance(passed.failure, UndeliverableReply)
    with pytest.raises(UpstreamError, match="empty"):
        EXCHANGE.read_reply(json.dumps(make_response(status="queued")).encode(), make_context())


EXPECTED = Expected(7, UsageLimits(1000, 100, 100))


def test_the_tier_and_the_calls_are_read() -> None:
    reported = read_responses_usage(None, "priority", {"web_search": 9}, EXPECTED)
    assert (reported.terms, reported.tool_calls) == (BillTerms("priority"), {"web_search": 9})
    assert read_responses_usage(None, None, {}, EXPECTED).terms is UNSAID
