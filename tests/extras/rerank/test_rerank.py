"""Ranks: the form of a reply is kept; requests are counted. `usage.txt` has what is charged."""

from __future__ import annotations

import json
from contextlib import nullcontext
from typing import Any, Final

import pytest

from gateway.base.errors import BadRequest
from gateway.base.money import SEARCH_UNIT
from gateway.base.prices import BillOptions
from gateway.base.usage import Expected, UsageLimits
from gateway.dialects.wire.records import Inputs, ReplyContext, Target
from tests.dialects.chat.kit import dump
from tests.support.formats import SERVICES
from tests.support.rows import each_row

RERANK: Final = SERVICES["rerank"]

ASKED: Final = {"model": "ours", "query": "12345678", "documents": ["1234", {"text": "a"}]}
RESULTS: Final = [{"index": 1, "relevance_score": 0.9}, {"index": 0, "relevance_score": 0.1}]


def make_context(units: int = 0, *, by_tokens: bool = False) -> ReplyContext:
    asked = BillOptions(tool_calls={SEARCH_UNIT: units} if units else {}, by_tokens=by_tokens)
    expected = Expected(9, UsageLimits(10**6, 10**6, 10**6), asked)
    return ReplyContext(RERANK.caller.parse_request(dump(ASKED)), "req", expected)


@each_row(
    ("reply", "tokens", "estimated"),
    [
        ({"model": "theirs", "results": RESULTS, "usage": {"total_tokens": 56}}, 56, False),
        ({"results": RESULTS, "meta": {"tokens": {"input_tokens": 31.0}}}, 9, True),
        ({"results": RESULTS, "meta": {"billed_units": {"input_tokens": 31}}}, 31, False),
        ({"id": "r", "results": []}, 9, True),
        (RESULTS, 9, True),
    ],
)
def test_tokens_are_those_that_are_told(reply: Any, tokens: int, estimated: bool) -> None:
    made = RERANK.read_reply(dump(reply), make_context(by_tokens=True))
    named = reply | {"model": "ours"} if "model" in reply else reply
    assert json.loads(made.body) == named
    assert (made.metered.tokens.input, made.metered.estimated) == (tokens, estimated)


@each_row(("documents", "units"), [(["a"], 1), (["a"] * 100, 1), (["a"] * 101, 2)])
def test_a_request_expects_units_and_the_query_with_each_document(
    documents: list[str], units: int
) -> None:
    for name in ("documents", "texts"):
        body = {"model": "m", "query": "12345678", name: documents}
        request = RERANK.caller.parse_request(dump(body))
        assert request.inputs == Inputs(len(documents), 3 * len(documents))
        asked = RERANK.upstream.read_bill_options(body, b"", Target("theirs"))
        assert asked.tool_calls == {SEARCH_UNIT: units}


def test_a_request_has_10_000_documents_at_most() -> None:
    for documents in (10_000, 10_001):
        body = dump({"model": "m", "query": "q", "documents": ["d"] * documents})
        with nullcontext() if documents == 10_000 else pytest.raises(BadRequest):
            RERANK.caller.parse_request(body)
