"""The API of rerank (Cohere's, Jina's).

It orders documents by their relevance to a query. Providers report tokens, search units, or nothing.
Replies, including TEI's plain array of results, pass unchanged except for the model's name.

Errors and models are written as for chat.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import orjson

from gateway.base.money import SEARCH_UNIT, Tokens
from gateway.base.prices import BillOptions
from gateway.base.usage import (
    MAX_PLAUSIBLE_CALLS,
    UNBOUNDED,
    Expected,
    Reported,
    count_text,
    estimate_tokens,
)
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.dialects.wire.known import has_files, is_reference, make_fields
from gateway.dialects.wire.records import CompletionRequest, Inputs, Json, Target
from gateway.dialects.wire.usage import read_openai_usage
from gateway.extras.rerank import MULTIPLIED
from gateway.extras.services.inputs import count_words, refuse_stream, too_long
from gateway.extras.services.upstream import ServiceUpstream

UNIT_DOCUMENTS: Final = 100
"""Documents in a search unit of Cohere, which splits long documents and counts their parts."""
MAX_DOCUMENTS: Final = 10_000
"""Documents of a request: Cohere's own limit."""
_LISTS: Final = ("documents", "texts")
"""Names of the documents; the second is TEI's."""


class RerankCaller(Caller):
    """A `Caller` of the rerank API."""

    name = "rerank"
    path = "/rerank"
    kind = "rerank"
    operation = "rerank"
    may_stream = False

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, FIELDS, ("model", "query"))
        documents = _list_documents(body)
        if not documents:
            raise fields.missing("documents")
        if all(map(body.get, _LISTS)):
            raise fields.unsupported(
                "texts", " is another name of 'documents'. Send all of them as 'documents'."
            )
        query = estimate_tokens(count_text(body["query"]))
        tokens = sum(map(_count_tokens, documents))
        # Models read the query with each document.
        inputs = Inputs(len(documents), tokens + query * len(documents))
        is_linked = any(map(_is_file, (body["query"], *documents)))
        more = UNBOUNDED if is_linked or has_files(body, _LISTS) else 0
        return CompletionRequest(body, body["model"], inputs=inputs, more_tokens=more)


def _list_documents(body: Json) -> list[object]:
    return next((body[name] for name in _LISTS if body.get(name)), [])


def _is_file(document: Any) -> bool:
    """Return whether a document is, or may contain, a file. A text may have a link beside it."""
    if type(document) is str:
        return is_reference(document)
    return not document.get("text") or has_files(document, _BESIDE_TEXT)


_BESIDE_TEXT: Final = frozenset({"url", "file", "document"})
"""Members that tell the source of a text."""


def _count_tokens(document: Any) -> int:
    text = document if type(document) is str else dumps_lenient(document).decode()
    return estimate_tokens(count_text(text))


def _check_documents(name: str, value: Any) -> None:
    fields.check_array(name, value)
    if len(value) > MAX_DOCUMENTS:
        raise too_long(name, MAX_DOCUMENTS, len(value))
    for index, document in enumerate(value):
        if type(document) not in (str, dict):
            raise fields.wrong_type(f"{name}[{index}]", "a string or an object", document)


FIELDS: Final = make_fields(
    {
        "model": fields.check_string,
        "query": fields.check_string,
        "documents": _check_documents,
        "texts": _check_documents,
        "top_n": fields.check_integer(1, 2**31),
        "stream": refuse_stream("Ranks are not streamed."),
    },
    MULTIPLIED,
)


class RerankUpstream(ServiceUpstream):
    """An `Upstream` that ranks documents."""

    name = "rerank"
    path = "/rerank"
    reply_name = "a list of results"
    multiplied = MULTIPLIED

    def demonstrate(self, body: Json) -> Iterator[bytes]:
        return _make_ranks(body)

    def read_bill_options(self, body: Json, data: bytes, target: Target) -> BillOptions:  # noqa: ARG002
        """Compute the search units of the documents, to hold their price."""
        units = -(-len(_list_documents(body)) // UNIT_DOCUMENTS)
        by_tokens = any(one.price.input for one in target.prices.applied)
        return BillOptions(any_tier=True, tool_calls={SEARCH_UNIT: units}, by_tokens=by_tokens)

    def parse(self, text: bytes) -> object:
        """Parse a reply; an array stands for its results."""
        reply = super().parse(text)
        return {"results": reply} if type(reply) is list else reply

    def check_reply(self, reply: Json) -> bool:
        results = reply.get("results")
        return type(results) is list and all(type(one) is dict for one in results)

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        """Read tokens and search units. Unreported units are computed from the documents."""
        usage = self.find_usage(reply) or {}
        given = usage.get("prompt_tokens") or usage.get("input_tokens") or usage.get("total_tokens")
        told = {**usage, "prompt_tokens": given, "completion_tokens": 0, "total_tokens": given}
        report = read_openai_usage(told, None, expected)
        asked = expected.options.tool_calls
        if asked:  # search units have a price
            units = _read_units(usage.get("search_units"))
            report.guessed = units is None
            report.tool_calls = asked if units is None else {SEARCH_UNIT: units}
        if not (report.has_input or expected.options.by_tokens):
            # Unreported tokens without a price are not estimated.
            report.tokens, report.has_input = Tokens(max(expected.input_tokens, 1)), True
        return report


def _read_units(told: object) -> int | None:
    """Read search units, which Cohere writes as a float; None if not reported."""
    if isinstance(told, int | float) and 0 < told <= MAX_PLAUSIBLE_CALLS:
        return math.ceil(told)
    return None


def _make_ranks(body: Json) -> Iterator[bytes]:
    """Make the embedded provider's reply: relevance is the share of the query's words in a document."""
    documents = body.get("documents") or body["texts"]
    wanted = set(body["query"].lower().split())
    results = []
    for index, document in enumerate(documents):
        text = document if isinstance(document, str) else str(document.get("text", ""))
        share = len(wanted.intersection(text.lower().split())) / (len(wanted) or 1)
        results.append({"index": index, "relevance_score": share})
    results.sort(key=lambda one: -one["relevance_score"])
    usage = {"total_tokens": sum(map(count_words, map(str, documents)))}
    top = results[: body.get("top_n")]
    yield orjson.dumps({"model": body["model"], "results": top, "usage": usage})
