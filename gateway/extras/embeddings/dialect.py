"""The embeddings API (OpenAI's), which providers of the chat and responses dialects serve.

A reply has megabytes of vectors. Vectors that pass are never parsed: a reply is read without the bytes
from the beginning of its first vector to the end of its last. Errors and models are written as for chat.
"""

from __future__ import annotations

import re
import struct
from binascii import b2a_base64
from collections.abc import Iterator
from functools import partial
from typing import Final

import orjson

from gateway.base.errors import UpstreamError
from gateway.base.money import Tokens
from gateway.base.usage import UNBOUNDED, Expected, Reported
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.jsonbytes import dumps_lenient, hide_bill, maybe_loads, maybe_splice
from gateway.dialects.wire.known import has_files, is_reference, make_fields
from gateway.dialects.wire.passing import find_last_usage
from gateway.dialects.wire.records import CompletionRequest, Json, ReplyContext, Target
from gateway.dialects.wire.usage import read_openai_usage
from gateway.extras.embeddings import MULTIPLIED
from gateway.extras.services.inputs import read_inputs, refuse_stream
from gateway.extras.services.upstream import ServiceUpstream

MAX_FRAME_BYTES: Final = 1 << 20
"""Bytes of a reply without its vectors, which are parsed as JSON: replies have some hundred."""
MAX_VECTOR_BYTES: Final = 1 << 20
"""Bytes of a vector: 40,000 floats, ten times as many as the largest models make. The limit bounds the
time to read one, while no other thread runs."""
STAND_IN: Final = "(vectors)"
"""The stand-in for `embedding` in a reply without its vectors."""

_KEY: Final = b'"embedding"'
_VECTOR: Final = re.compile(_KEY + rb'\s*:\s*(?=[\["])')
"""Matches the key of a vector, not the value of `object`. Inside a string the quotes would be escaped."""
_CLOSING: Final = {b"[": b"]", b'"': b'"'}
_MAX_HITS: Final = 4
"""Occurrences of the word "embedding" that are tried; an item has two."""


def maybe_find_vectors(text: bytes) -> tuple[int, int] | None:
    """Find the beginning of the first vector and the end of the last one; None without any."""
    first = _VECTOR.search(text, 0, MAX_FRAME_BYTES)
    if first is None:
        return None
    # This bounds the search from the end, which blocks all other threads.
    least = max(first.start(), len(text) - MAX_FRAME_BYTES - MAX_VECTOR_BYTES)
    at = len(text)
    for _ in range(_MAX_HITS):
        at = text.rfind(_KEY, least, at)
        if at < 0:
            break
        if last := _VECTOR.match(text, at):
            begin = last.end()
            end = text.find(_CLOSING[text[begin : begin + 1]], begin + 1) + 1
            return (first.end(), end) if end else None
    return None


def pack_vectors(text: bytes) -> bytes:
    """Write arrays of floats as base64 of little-endian float32, one by one.

    `text` reaches from the beginning of the first vector to the end of the last. Raises UpstreamError.
    """
    pieces = []
    begin = 0
    while True:
        end = text.find(b"]", begin) + 1
        pieces.append(_pack(text[begin:end]))
        following = _VECTOR.search(text, end)
        if following is None:
            return b"".join(pieces)
        begin = following.end()
        pieces.append(text[end:begin])


def _pack(vector: bytes) -> bytes:
    if len(vector) > MAX_VECTOR_BYTES:
        raise UpstreamError("The upstream provider's vectors are too large.")
    try:
        numbers = orjson.loads(vector)
        packed = struct.pack(f"<{len(numbers)}f", *numbers)
    except (orjson.JSONDecodeError, struct.error, OverflowError) as error:
        raise UpstreamError("The upstream provider's vectors are no arrays of numbers.") from error
    return b'"%b"' % b2a_base64(packed, newline=False)


MAX_DIMENSIONS: Final = 1 << 16
"""Numbers of a vector: no model comes near, so more is a typing error."""
FORMATS: Final = ("float", "base64")
"""Encodings of a vector. Both SDKs ask for base64 if the caller says nothing."""


class EmbeddingsCaller(Caller):
    """A `Caller` of the embeddings API."""

    name = "embeddings"
    path = "/embeddings"
    kind = "embedding"
    operation = "embeddings"
    may_stream = False

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, FIELDS, ("model", "input"))
        inputs = read_inputs("input", body["input"])
        texts = body["input"] if type(body["input"]) is list else [body["input"]]
        is_linked = type(texts[0]) is str and any(map(is_reference, texts))
        more = UNBOUNDED if is_linked or has_files(body, _INPUT) else 0
        return CompletionRequest(body, body["model"], inputs=inputs, more_tokens=more)


_INPUT: Final = frozenset({"input"})
_FORMAT: Final = "encoding_format"
FIELDS: Final = make_fields(
    {
        "model": fields.check_string,
        "stream": refuse_stream("Embeddings are not streamed."),
        "dimensions": fields.check_integer(1, MAX_DIMENSIONS),
        _FORMAT: partial(fields.check_word, words=FORMATS),
        "user": fields.check_string,
    },
    MULTIPLIED,
)


class EmbeddingsUpstream(ServiceUpstream):
    """An `Upstream` that makes embeddings."""

    name = "embeddings"
    path = "/embeddings"
    reply_name = "a list of embeddings"
    multiplied = MULTIPLIED

    def demonstrate(self, body: Json) -> Iterator[bytes]:
        from gateway.extras.embeddings.demo import make_embeddings

        return make_embeddings(body)

    def ask(self, body: Json, target: Target) -> Json:
        """Address a request. If the provider has no base64, it sends floats, and `edit_reply` packs them."""
        asked = super().ask(body, target)
        if body.get(_FORMAT) == "base64" and not target.embeddings_base64:
            asked[_FORMAT] = "float"
        return asked

    def parse(self, text: bytes) -> object:
        """Parse a reply without its vectors. Its `data` has one item, which replaces all."""
        found = maybe_find_vectors(text)
        frame = text if found is None else _cut(text, *found)
        return maybe_loads(frame) if len(frame) <= MAX_FRAME_BYTES else find_last_usage(text) or {}

    def check_reply(self, reply: Json) -> bool:
        match reply:
            case {"data": [{"embedding": held}]}:
                return bool(held == STAND_IN)
            case _:
                return False

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        """Read the input tokens. Some providers report only the total, which is the same."""
        usage = self.find_usage(reply) or {}
        total = usage.get("total_tokens")
        given = usage.get("prompt_tokens") or usage.get("input_tokens") or total
        told = {**usage, "prompt_tokens": given, "completion_tokens": 0, "total_tokens": given}
        return read_openai_usage(told, reply.get("service_tier"), expected)

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        """Edit the model; add `tokens` if there is no usage; pack floats if the caller wants base64.

        Missing members are appended.
        """
        found = maybe_find_vectors(text)
        if found is None:  # the reply contains the stand-in itself, under an escaped name
            raise UpstreamError(f"The upstream's reply is not {self.reply_name}.")
        begin, end = found
        vectors: bytes | memoryview = memoryview(text)[begin:end]
        if context.request.body.get(_FORMAT) == "base64" and vectors[:1] == b"[":
            vectors = pack_vectors(text[begin:end])
        frame, model, ours = _cut(text, begin, end), reply.get("model"), context.request.model
        shown = hide_bill(reply, frame)
        if shown is not reply:  # written anew, as the bill may be before or after the vectors
            frame = dumps_lenient(shown)
        edited = maybe_splice(frame, "model", model, ours) if type(model) is str else None
        missing: Json = {} if edited else {"model": ours}
        if type(reply.get("usage")) is not dict:
            count = tokens.all_input
            missing["usage"] = {"prompt_tokens": count, "total_tokens": count}
        if not shown.keys().isdisjoint(missing):  # strict clients refuse duplicate keys
            edited, missing = dumps_lenient({**shown, **missing, "model": ours}), {}
        head, _, tail = (edited or frame).partition(_MARK)
        if missing:
            tail = b"%b,%b" % (tail[:-1], dumps_lenient(missing)[1:])
        return b"".join((head, vectors, tail))


_MARK: Final = orjson.dumps(STAND_IN)


def _cut(text: bytes, begin: int, end: int) -> bytes:
    """Return a reply whose items are cut to one, which begins as the first and ends as the last."""
    return text[:begin] + _MARK + text[end:]
