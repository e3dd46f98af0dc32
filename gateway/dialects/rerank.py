"""Reranking (Cohere's and Jina's API): documents in the order of what they say about a query.

Providers report what they charge for in three ways: tokens, search units, or nothing. Replies pass as
they are, but for the model's name; an array of results, as TEI writes it, too.
"""

from __future__ import annotations

import math
from typing import Any, Final

from gateway.dialects.base import Caller, Upstream
from gateway.dialects.chat.dialect import ChatUpstream
from gateway.dialects.records import CompletionRequest, Inputs, Json, ReplyContext, Target
from gateway.dialects.wire import fields
from gateway.dialects.wire.billed import check_fields
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_object, maybe_loads
from gateway.dialects.wire.replies import check_error
from gateway.dialects.wire.usage import read_openai_usage
from gateway.errors import UpstreamError
from gateway.money import SEARCH_UNIT, Tokens
from gateway.prices import Asked
from gateway.usage import MAX_PLAUSIBLE_CALLS, Expected, Reported, count_text, estimate_tokens

UNIT_DOCUMENTS: Final = 100
"""Documents of a search unit, as Cohere counts them; it cuts long ones, and counts the parts."""
MAX_DOCUMENTS: Final = 10_000
"""Documents of a request: Cohere's own limit."""
_LISTS: Final = ("documents", "texts")
"""Names of the documents; the second is TEI's."""


class RerankCaller(Caller):
    """A `Caller` of the rerank API. It asks for no streams."""

    name = "rerank"
    path = "/rerank"
    kind = "rerank"

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data)
        fields.check_all(body, _FIELDS, required=("model", "query"))
        documents = _list_documents(body)
        if not documents:
            raise fields.missing("documents")
        query = estimate_tokens(count_text(body["query"]))
        tokens = sum(map(_count_tokens, documents))
        # Models read the query with each document.
        inputs = Inputs(len(documents), tokens + query * len(documents))
        return CompletionRequest(body, body["model"], inputs=inputs)


def _list_documents(body: Json) -> list[Any]:
    return next((body[name] for name in _LISTS if body.get(name)), [])


def _count_tokens(document: Any) -> int:
    text = document if type(document) is str else dumps_lenient(document).decode()
    return estimate_tokens(count_text(text))


def _check_documents(name: str, value: Any) -> None:
    fields.check_array(name, value)
    if len(value) > MAX_DOCUMENTS:
        raise fields.too_long(name, MAX_DOCUMENTS, len(value))
    for index, document in enumerate(value):
        if type(document) not in (str, dict):
            raise fields.wrong_type(f"{name}[{index}]", "a string or an object", document)


_FIELDS: Final = {
    "model": fields.check_string,
    "query": fields.check_string,
    "documents": _check_documents,
    "texts": _check_documents,
    "top_n": fields.check_integer(1, 2**31),
    "stream": fields.refuse_stream("Ranks are not streamed."),
}


class RerankUpstream(ChatUpstream):
    """An `Upstream` that ranks documents. It has no streams, so nobody opens one."""

    name = "rerank"
    path = "/rerank"

    def ask(self, body: Json, target: Target) -> Json:
        check_fields(body, target)
        return {**body, "model": target.upstream_model}

    def read_asked(self, body: Json, data: bytes, target: Target) -> Asked:  # noqa: ARG002
        """Expect the search units of the documents."""
        units = -(-len(_list_documents(body)) // UNIT_DOCUMENTS)
        by_tokens = any(one.price.input for one in target.prices.applied)
        return Asked(any_tier=True, tool_calls={SEARCH_UNIT: units}, by_tokens=by_tokens)

    def read_reply(self, text: bytes) -> Json:
        """Read a reply; an array is read as its results."""
        reply = maybe_loads(text)
        if type(reply) is list:
            reply = {"results": reply}
        if type(reply) is dict:
            check_error(reply)
            results = reply.get("results")
            if type(results) is list and all(type(one) is dict for one in results):
                return reply
        raise UpstreamError("The upstream's reply is not a list of results.")

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        """Read tokens and search units. Units that are not told are those of the documents."""
        meta = get_object(reply, "meta")
        billed, usage = get_object(meta, "billed_units"), self.find_usage(reply) or {}
        given = usage.get("prompt_tokens") or usage.get("input_tokens") or usage.get("total_tokens")
        given = (
            given or get_object(meta, "tokens").get("input_tokens") or billed.get("input_tokens")
        )
        told = {**usage, "prompt_tokens": given, "completion_tokens": 0, "total_tokens": given}
        report = read_openai_usage(told, None, expected)
        asked = expected.asked.tool_calls
        if asked:  # search units have a price
            units = _read_units(billed.get("search_units"))
            report.guessed = units is None
            report.tool_calls = asked if units is None else {SEARCH_UNIT: units}
        if not (report.has_input or expected.asked.by_tokens):
            # Nothing is guessed if tokens are not told that have no price.
            report.tokens, report.has_input = Tokens(max(expected.input_tokens, 1)), True
        return report

    def is_whole(self, reply: Json) -> bool:  # noqa: ARG002 - one that is cut is no JSON
        return True

    def has_content(self, reply: Json) -> bool:  # noqa: ARG002 - a rank has no output tokens
        return False

    def count_text(self, reply: Json) -> int:  # noqa: ARG002 - there is none
        return 0

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        if type(reply.get("model")) is str or b"cost" in text:
            return Upstream.edit_reply(self, text, reply, context, tokens)
        return text


def _read_units(told: object) -> int | None:
    """Read search units, which Cohere writes as a float; None if they are not told."""
    if isinstance(told, int | float) and 0 < told <= MAX_PLAUSIBLE_CALLS:
        return math.ceil(told)
    return None
