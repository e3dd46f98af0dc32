"""The completions API (OpenAI's old one): the text behind a prompt, or between a prompt and a suffix.

Editors complete code by it. A provider's replies and events keep their form, which at Mistral is that
of chat; only the model's name is edited. Errors and models are written as for chat.
"""

from __future__ import annotations

from typing import Any, Final, Literal

from gateway.dialects.base import Caller, Pipeline, Upstream
from gateway.dialects.chat.dialect import FIELDS, ChatUpstream
from gateway.dialects.chat.repair import count_choices_text
from gateway.dialects.chat.stream import DONE, ChatReader, ChatStream
from gateway.dialects.embeddings import read_inputs
from gateway.dialects.records import CompletionRequest, Event, Json, ReplyContext
from gateway.dialects.wire import fields
from gateway.dialects.wire.jsonbytes import get_list
from gateway.dialects.wire.sse import render_data
from gateway.dialects.wire.templates import PROBE, PROBE_BYTES, maybe_cut
from gateway.money import Tokens
from gateway.usage import count_text, estimate_tokens

MAX_BEST_OF: Final = 20
"""Texts of which the best are returned; all are charged. OpenAI's own limit."""


class CompletionsCaller(Caller):
    """A `Caller` of the completions API."""

    name = "completions"
    path = "/completions"
    kind = "completion"

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data)
        fields.check_all(body, _FIELDS, required=("model", "prompt"))
        # An editor asks with an empty prompt at the beginning of a file.
        inputs = read_inputs("prompt", body["prompt"], may_be_empty=True)
        inputs.tokens += estimate_tokens(count_text(body.get("suffix")))
        options = body.get("stream_options") or {}
        return CompletionRequest(
            body,
            body["model"],
            body.get("stream") is True,
            options.get("include_usage") is True,
            n=inputs.count * max(body.get("n") or 1, body.get("best_of") or 1),
            max_tokens=body.get("max_tokens") or None,
            inputs=inputs,
        )


_FIELDS: Final = {
    **FIELDS,
    "suffix": fields.check_string,
    "echo": fields.check_boolean,
    "best_of": fields.check_integer(1, MAX_BEST_OF),
}


class CompletionsUpstream(ChatUpstream):
    """An `Upstream` that completes text."""

    name = "completions"
    path = "/completions"
    reply_name = "a text completion"

    def has_content(self, reply: Json) -> bool:
        return self.count_text(reply) > 0 or super().has_content(reply)

    def count_text(self, reply: Json) -> int:
        return _count_text(reply["choices"], "message")

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        return Upstream.edit_reply(self, text, reply, context, tokens)

    def replay_reply(self, reply: Json) -> bytes:
        choices = [
            {"delta" if key == "message" else key: value for key, value in one.items()}
            for one in reply["choices"]
            if type(one) is dict
        ]
        end = DONE if self.is_whole(reply) else b""
        return render_data({**reply, "choices": choices}) + end

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return CompletionStream(context)


class CompletionReader(ChatReader):
    """A `EventReader` of chunks. What is missing in them stays missing."""

    __slots__ = ()

    def __init__(self, context: ReplyContext) -> None:
        super().__init__(context)
        inputs = context.request.inputs
        self._n = (context.request.body.get("n") or 1) * (inputs.count if inputs else 1)

    def read_event(self, event: Event) -> Json | None:
        chunk = super().read_event(event)
        for position, choice in enumerate(get_list(chunk or {}, "choices")):
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
            case [{"text": str(text), "finish_reason": None} as choice] if text and self._may_learn:
                self._learn_text(block, chunk, choice)
            case _:
                pass
        return self._render(block, chunk, None)

    def _learn_text(self, block: bytes, chunk: Json, choice: Json) -> None:
        """Learn the template of a chunk whose one text may be any other."""
        if chunk.get("usage") is not None:
            return  # a usage has to be read each time
        self._may_learn -= 1
        probed = {**chunk, "choices": [{**choice, "text": PROBE}]}
        if cut := maybe_cut(block, probed, "text", choice["text"]):
            self._learn(*cut, self._render(PROBE_BYTES.join(cut), probed, None))

    def _make_id(self, upstream_id: object) -> str:
        has_id = type(upstream_id) is str and upstream_id
        return str(upstream_id) if has_id else f"cmpl-{self._context.request_id}"


def _count_text(choices: list[Any], key: Literal["message", "delta"]) -> int:
    """Count the UTF-8 bytes of completions, which have the form of chat at some providers."""
    texts = [one.get("text") for one in choices if type(one) is dict]
    return count_text(*texts) + count_choices_text(choices, key)
