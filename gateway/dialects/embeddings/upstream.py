"""Embeddings upstreams: OpenAI-compatible APIs, and their replies, whose vectors pass unread."""

from __future__ import annotations

from typing import Any, Final, NoReturn

from gateway.dialects.chat.upstream import ChatUpstream
from gateway.dialects.embeddings.vectors import (
    MAX_FRAME_BYTES,
    STAND_IN,
    Frame,
    maybe_find_vectors,
    pack_vectors,
)
from gateway.dialects.records import Json, ReplyContext, Target
from gateway.dialects.wire.jsonbytes import dumps_lenient, maybe_loads, maybe_splice
from gateway.dialects.wire.upstream_errors import make_failure
from gateway.dialects.wire.usage import hide_bill, read_openai_usage
from gateway.errors import UpstreamError
from gateway.money import Tokens
from gateway.usage import Expected, Reported

_CHAT: Final = ChatUpstream()
_FORMAT: Final = "encoding_format"


class EmbeddingsUpstream:
    """An `Upstream` that makes embeddings. It has no streams, so nobody opens one."""

    name: Final = "embeddings"
    path: Final = "/embeddings"
    models_path: Final = "/models"
    default_reasoning: Final = _CHAT.default_reasoning
    requires_limit: Final = False
    passed_headers: Final = ()
    auth_headers = staticmethod(_CHAT.auth_headers)
    find_usage = staticmethod(_CHAT.find_usage)

    def ask(self, body: Json, target: Target) -> Json:
        """Address a request; base64 is made here where the provider cannot."""
        asked = _CHAT.ask(body, target)
        if body.get(_FORMAT) == "base64" and not target.embeddings_base64:
            asked[_FORMAT] = "float"
        return asked

    def read_reply(self, text: bytes) -> Json:
        """Read a reply without its vectors; `data` has one item that stands for all."""
        found = maybe_find_vectors(text)
        frame = text if found is None else _cut(text, *found).text
        reply = maybe_loads(frame) if len(frame) <= MAX_FRAME_BYTES else None
        if type(reply) is dict:
            if reply.get("error") or reply.get("object") == "error":
                raise make_failure(reply)
            match reply.get("data"):
                case [{"embedding": 0}] if found is not None:
                    return reply
                case _:
                    pass
        raise UpstreamError("The upstream's reply is not a list of embeddings.")

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        """Read the input; some providers report only the total, which is the same."""
        usage = self.find_usage(reply) or {}
        total = usage.get("total_tokens")
        given = usage.get("prompt_tokens") or usage.get("input_tokens") or total
        told = {**usage, "prompt_tokens": given, "completion_tokens": 0, "total_tokens": given}
        return read_openai_usage(told, reply.get("service_tier"), expected)

    def is_whole(self, reply: Json) -> bool:  # noqa: ARG002 - one that is cut is no JSON
        return True

    def has_content(self, reply: Json) -> bool:  # noqa: ARG002 - a vector has no output tokens
        return False

    def count_text(self, reply: Json) -> int:  # noqa: ARG002 - there is none
        return 0

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        """Edit the model; without a usage, tell `tokens`; pack floats if the caller wants base64.

        What is missing is written at the end, as the last of duplicate keys counts.
        """
        found = maybe_find_vectors(text)
        assert found is not None  # since `read_reply` read it
        begin, end = found
        vectors: bytes | memoryview = memoryview(text)[begin:end]
        if context.request.body.get(_FORMAT) == "base64" and vectors[:1] == b"[":
            vectors = pack_vectors(text[begin:end])
        frame, model, ours = _cut(text, begin, end), reply.get("model"), context.request.model
        shown = hide_bill(reply, frame.text)
        if shown is not reply:  # written anew, as the bill may stand on either side of the vectors
            head, mark, tail = dumps_lenient(shown).partition(b'"embedding":')
            frame = Frame(head + mark, tail.removeprefix(STAND_IN))
        edited = maybe_splice(frame.text, "model", model, ours) if type(model) is str else None
        missing: Json = {}
        if edited is None:
            missing["model"] = ours
        else:
            frame = frame.replace(edited)
        if self.find_usage(reply) is None:
            count = tokens.all_input
            missing["usage"] = {"prompt_tokens": count, "total_tokens": count}
        tail = frame.tail
        if missing:
            tail = b"%b,%b" % (tail[:-1], dumps_lenient(missing)[1:])
        return b"".join((frame.head, vectors, tail))

    def _refuse_stream(self, _: Any) -> NoReturn:
        raise AssertionError("a request for embeddings asks for no stream")

    replay_reply = open_stream = open_reader = _refuse_stream


def _cut(text: bytes, begin: int, end: int) -> Frame:
    return Frame(text[:begin], text[end:])
