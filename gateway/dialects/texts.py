"""The APIs of single texts: completions (OpenAI's older API) and rerank (Cohere's, Jina's).

A completion continues a prompt, or fills in between a prompt and a suffix; editors complete code with
it. A provider's replies and events keep their form (Mistral's is that of chat); only the model's name is
edited.

Rerank orders documents by their relevance to a query. Providers report tokens, search units, or nothing.
Replies pass unchanged except for the model's name, also TEI's plain array of results.

Errors and models are written as for chat.
"""

from __future__ import annotations

import math
from functools import partial
from typing import Any, Final, Literal

from gateway.dialects.base import Caller, EventUpstream, Pipeline
from gateway.dialects.chat.dialect import (
    CHECKS,
    ServiceUpstream,
    ask_usage,
    has_choice,
    is_finished,
)
from gateway.dialects.chat.repair import carries, count_choices_text
from gateway.dialects.chat.stream import DONE, ChatReader, ChatStream
from gateway.dialects.embeddings import read_inputs
from gateway.dialects.records import CompletionRequest, Inputs, Json, ReplyContext, Target
from gateway.dialects.wire import fields
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list
from gateway.dialects.wire.known import TextFields, make_fields
from gateway.dialects.wire.media import has_files, is_reference
from gateway.dialects.wire.sse import render_data
from gateway.dialects.wire.templates import PROBE
from gateway.dialects.wire.usage import edit_model, find_chunk_usage, read_openai_usage
from gateway.money import SEARCH_UNIT, Tokens
from gateway.prices import BillOptions
from gateway.usage import (
    MAX_PLAUSIBLE_CALLS,
    UNBOUNDED,
    Expected,
    Reported,
    count_text,
    estimate_tokens,
)

MAX_BEST_OF: Final = 20
"""Texts generated to return the best of them. All are charged. OpenAI's own limit."""
UNIT_DOCUMENTS: Final = 100
"""Documents of a search unit, as Cohere counts them. Cohere splits long documents and counts the
parts."""
MAX_DOCUMENTS: Final = 10_000
"""Documents of a request: Cohere's own limit."""
_LISTS: Final = ("documents", "texts")
"""Names of the documents; the second is TEI's."""


class CompletionsCaller(Caller):
    """A `Caller` of the completions API."""

    name = "completions"
    path = "/completions"
    kind = "completion"
    operation = "text_completion"

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, _FIELDS, ("model", "prompt"))
        # Editors send an empty prompt at the beginning of a file.
        inputs = read_inputs("prompt", body["prompt"], may_be_empty=True)
        inputs.tokens += estimate_tokens(count_text(body.get("suffix")))
        options = body.get("stream_options") or {}
        n, limit = _FIELDS.count_output(
            body, max(body.get("n") or 1, body.get("best_of") or 1), body.get("max_tokens") or 0
        )
        return CompletionRequest(
            body,
            body["model"],
            body.get("stream") is True,
            options.get("include_usage") is True,
            n=inputs.count * n,
            max_tokens=limit,
            more_tokens=UNBOUNDED if has_files(body) else 0,
            inputs=inputs,
        )


_FIELDS: Final = TextFields(
    "completions",
    {
        **CHECKS,
        "suffix": fields.check_string,
        "echo": fields.check_boolean,
        "best_of": fields.check_integer(1, MAX_BEST_OF),
    },
)


class CompletionsUpstream(ServiceUpstream, EventUpstream):
    """An `Upstream` that completes text."""

    name = "completions"
    path = "/completions"
    reply_name = "a text completion"
    check_reply = staticmethod(has_choice)
    is_whole = staticmethod(is_finished)

    def ask(self, body: Json, target: Target) -> Json:
        asked = super().ask(body, target)
        ask_usage(asked, target)
        return asked

    def find_usage(self, reply: Json) -> Json | None:
        return find_chunk_usage(reply)

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        return read_openai_usage(self.find_usage(reply), reply.get("service_tier"), expected)

    def has_content(self, reply: Json) -> bool:
        choices = reply["choices"]
        return self.count_text(reply) > 0 or any(carries(one, "message") for one in choices)

    def count_text(self, reply: Json) -> int:
        return _count_text(reply["choices"], "message")

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:  # noqa: ARG002
        return edit_model(text, reply, context.request.model)

    def replay_reply(self, text: bytes, reply: Json) -> bytes:  # noqa: ARG002
        choices = [
            {"delta" if key == "message" else key: value for key, value in one.items()}
            for one in reply["choices"]
            if type(one) is dict
        ]
        end = DONE if is_finished(reply) else b""
        return render_data({**reply, "choices": choices}) + end

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return CompletionStream(context)

    def open_reader(self, context: ReplyContext) -> CompletionReader:
        return CompletionReader(context)


class CompletionReader(ChatReader):
    """An `EventReader` of chunks. Missing members stay missing."""

    __slots__ = ()

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        inputs = context.request.inputs
        self._n = (context.request.body.get("n") or 1) * (inputs.count if inputs else 1)

    def _read_object(self, chunk: Json, name: str) -> Json:
        chunk = super()._read_object(chunk, name)
        for position, choice in enumerate(get_list(chunk, "choices")):
            if type(choice) is dict:
                index = choice.get("index")
                index = index if type(index) is int else position
                self.repair.started.add(index)
                if choice.get("finish_reason"):
                    self.repair.finished.add(index)
        return chunk

    def close(self) -> list[Json]:
        return []


class CompletionStream(ChatStream):
    """A `Pipeline`: the upstream's events, with the model's name edited."""

    _open_reader = CompletionReader
    __slots__ = ()

    def _count_text(self, choices: list[Any]) -> int:
        return _count_text(choices, "delta")

    def _convert(self, block: bytes, chunk: Json) -> bytes:
        match chunk["choices"]:
            # Usages have to be read each time.
            case [{"text": str(text), "finish_reason": None} as choice] if (
                text and chunk.get("usage") is None
            ):
                probed = {**chunk, "choices": [{**choice, "text": PROBE}]}
                self._learn_text(block, probed, "text", text, partial(self._render, chunks=None))
            case _:
                pass
        return self._render(block, chunk, None)

    def _make_id(self, upstream_id: object) -> str:
        has_id = type(upstream_id) is str and upstream_id
        return str(upstream_id) if has_id else f"cmpl-{self._context.request_id}"


def _count_text(choices: list[Any], key: Literal["message", "delta"]) -> int:
    """Count the UTF-8 bytes of completions, which have the form of chat at some providers."""
    texts = [one.get("text") for one in choices if type(one) is dict]
    return count_text(*texts) + count_choices_text(choices, key)


class RerankCaller(Caller):
    """A `Caller` of the rerank API."""

    name = "rerank"
    path = "/rerank"
    kind = "rerank"
    operation = "rerank"
    may_stream = False

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, _RERANK_FIELDS, ("model", "query"))
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


def _list_documents(body: Json) -> list[Any]:
    return next((body[name] for name in _LISTS if body.get(name)), [])


def _is_file(document: Any) -> bool:
    """Return whether a document is no text, or has more than that. Texts may have a link beside them."""
    if type(document) is str:
        return is_reference(document)
    return not document.get("text") or has_files(document, _BESIDE_TEXT)


_BESIDE_TEXT: Final = frozenset({"url", "file", "document"})
"""Members that say where a text is from."""


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


_RERANK_FIELDS: Final = make_fields(
    "rerank",
    {
        "model": fields.check_string,
        "query": fields.check_string,
        "documents": _check_documents,
        "texts": _check_documents,
        "top_n": fields.check_integer(1, 2**31),
        "stream": fields.refuse_stream("Ranks are not streamed."),
    },
)


class RerankUpstream(ServiceUpstream):
    """An `Upstream` that ranks documents."""

    name = "rerank"
    path = "/rerank"
    reply_name = "a list of results"

    def read_bill_options(self, body: Json, data: bytes, target: Target) -> BillOptions:  # noqa: ARG002
        """Expect the search units of the documents."""
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
