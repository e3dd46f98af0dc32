"""Ranks: the form of a reply is kept; requests are counted. `usage.txt` has what is charged."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Final

import pytest

from gateway.base.errors import BadRequest
from gateway.base.money import SEARCH_UNIT
from gateway.dialects.wire.records import Inputs, Target
from tests.dialects.chat.kit import dump
from tests.support.formats import SERVICES
from tests.support.rows import each_row

RERANK: Final = SERVICES["rerank"]


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
