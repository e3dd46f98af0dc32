"""OpenAI's older API of completions.

A completion continues a prompt, or fills in between a prompt and a suffix; editors complete code with
it. A provider's replies and events keep their form (Mistral's is that of chat); only the model's name is
edited.

Errors and models are written as for chat.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from typing import Final, Literal

import orjson

from gateway.base.money import Tokens
from gateway.base.usage import UNBOUNDED, Expected, Reported, count_text, estimate_tokens
from gateway.dialects.chat.content import carries, count_choices_text
from gateway.dialects.chat.dialect import CHECKS, ask_usage, has_choice, is_finished
from gateway.dialects.chat.stream import DONE, ChatReader, ChatStream
from gateway.dialects.wire import fields
from gateway.dialects.wire.base import Caller, EventUpstream
from gateway.dialects.wire.jsonbytes import edit_model, get_list
from gateway.dialects.wire.known import COUNTED, count_output, has_files, make_fields
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import CompletionRequest, Json, ReplyContext, Target
from gateway.dialects.wire.sse import render_data
from gateway.dialects.wire.templates import PROBE
from gateway.dialects.wire.usage import find_chunk_usage, read_openai_usage
from gateway.extras.completions import MULTIPLIED
from gateway.extras.services.inputs import count_words, list_inputs, read_inputs
from gateway.extras.services.upstream import ServiceUpstream

MAX_BEST_OF: Final = 20
"""Texts that are generated to return the best of them, all charged: OpenAI's own limit."""


class CompletionsCaller(Caller):
    """A `Caller` of the completions API."""

    name = "completions"
    path = "/completions"
    kind = "completion"
    operation = "text_completion"

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data, FIELDS, ("model", "prompt"))
        # Editors send an empty prompt at the beginning of a file.
        inputs = read_inputs("prompt", body["prompt"], may_be_empty=True)
        inputs.tokens += estimate_tokens(count_text(body.get("suffix")))
        options = body.get("stream_options") or {}
        choices, most = max(body.get("n") or 1, body.get("best_of") or 1), body.get("max_tokens")
        n, limit = count_output(body, choices, most or 0, _COUNTED)
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


_COUNTED: Final = frozenset({"n", "best_of", "max_tokens"})
"""The fields of `COUNTED` that the dialect reads itself."""
FIELDS: Final = make_fields(
    {
        **COUNTED,
        **CHECKS,
        "suffix": fields.check_string,
        "echo": fields.check_boolean,
        "best_of": fields.check_integer(0, MAX_BEST_OF),  # OpenAI treats 0 as missing
    },
    rows=MULTIPLIED,
)


class CompletionsUpstream(ServiceUpstream, EventUpstream):
    """An `Upstream` that completes text."""

    name = "completions"
    path = "/completions"
    reply_name = "a text completion"
    multiplied = MULTIPLIED
    check_reply = staticmethod(has_choice)
    is_whole = staticmethod(is_finished)
    find_usage = staticmethod(find_chunk_usage)

    def demonstrate(self, body: Json) -> Iterator[bytes]:
        return _make_texts(body)

    def ask(self, body: Json, target: Target) -> Json:
        asked = super().ask(body, target)
        ask_usage(asked, target)
        return asked

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        return read_openai_usage(find_chunk_usage(reply), reply.get("service_tier"), expected)

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

    kind = "text_completion"

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

    def _count_text(self, choices: list[object]) -> int:
        return _count_text(choices, "delta")

    def _convert(self, block: bytes, chunk: Json) -> bytes:
        match chunk["choices"]:
            # An event with a usage has to be read each time.
            case [{"text": str(text), "finish_reason": None} as choice] if (
                text and chunk.get("usage") is None
            ):
                probed = {**chunk, "choices": [{**choice, "text": PROBE}]}
                self._learn_text(block, (probed, "text", text), partial(self._render, chunks=None))
            case _:
                pass
        return self._render(block, chunk, None)

    def _make_id(self, upstream_id: object) -> str:
        has_id = type(upstream_id) is str and upstream_id
        return str(upstream_id) if has_id else f"cmpl-{self._context.request_id}"


def _count_text(choices: list[object], key: Literal["message", "delta"]) -> int:
    """Count the UTF-8 bytes of completions, which have the form of chat at some providers."""
    texts = [one.get("text") for one in choices if type(one) is dict]
    return count_text(*texts) + count_choices_text(choices, key)


def _make_texts(body: Json) -> Iterator[bytes]:
    """Make the embedded provider's reply, which repeats the prompt, or the chunks of its stream."""
    from gateway.upstream import demo  # only where there is such a provider

    prompts, n = list_inputs(body["prompt"]), body.get("n") or 1
    texts = [demo.cut(body, _show_prompt(prompt)) for prompt in prompts for _ in range(n)]
    head = {**demo.make_head(body, "text_completion"), "id": f"cmpl-demo{time.time_ns():x}"}
    usage = demo.make_usage(sum(map(count_words, prompts)), sum(len(tokens) for tokens, _ in texts))
    choices = [
        {"text": "".join(tokens), "index": index, "logprobs": None, "finish_reason": reason}
        for index, (tokens, reason) in enumerate(texts)
    ]
    if not body.get("stream"):
        yield orjson.dumps({**head, "choices": choices, "usage": usage})
        return
    pieces: list[Json] = []
    for choice, (tokens, _) in zip(choices, texts, strict=True):
        pieces += [{**choice, "text": token, "finish_reason": None} for token in tokens]
        pieces.append({**choice, "text": ""})
    chunks = [{**head, "choices": [piece]} for piece in pieces]
    if (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**head, "choices": [], "usage": usage})
    yield from demo.write_stream(chunks)


def _show_prompt(prompt: str | list[int]) -> str:
    return prompt if isinstance(prompt, str) else " ".join(map(str, prompt))
