"""The tiny dialect over chat, and chat over the tiny dialect."""

from __future__ import annotations

from typing import Any

from gateway.dialects.base import Translation
from gateway.dialects.chat.stream import DONE
from gateway.dialects.chat.usage import make_chat_usage
from gateway.dialects.records import CompletionRequest, ReplyContext, Target, Usage
from gateway.dialects.wire.fields import Field
from gateway.usage import count_text
from tests.dialects.tiny.upstream import BYE, render

Json = dict[str, Any]

ROLES = {"rule": "system", "me": "user", "you": "assistant"}
SPEAKERS = {"system": "rule", "developer": "rule", "user": "me", "assistant": "you"}
KNOWN = {"model", "messages", "stream", "stream_options", "max_tokens", "max_completion_tokens"}


def write_used(usage: Usage) -> Json:
    tokens = usage.tokens
    return {"in": tokens.total - tokens.output, "out": tokens.output}


def ask_chat(request: CompletionRequest, target: Target) -> Json:
    """Translate the request of a tiny caller for a chat upstream."""
    lines = request.body["lines"]
    messages = [{"role": ROLES[speaker], "content": words} for speaker, words in lines]
    body: Json = {"model": request.model, "messages": messages, "stream": request.stream}
    if request.max_tokens is not None:
        body[target.max_tokens_field] = request.max_tokens
    return body


def tell_tiny(reply: Json, context: ReplyContext, usage: Usage) -> Json:
    """Translate the reply of a chat upstream for a tiny caller."""
    choice = reply["choices"][0]
    return {
        "by": context.request.model,
        "words": choice["message"]["content"],
        "end": "cut" if choice["finish_reason"] == "length" else "done",
        "used": write_used(usage),
    }


class TinyWriter:
    """Writes tiny events from chat chunks."""

    position = None

    def __init__(self, context: ReplyContext) -> None:
        self.text_bytes = 0
        self._model = context.request.model
        self._end = "done"
        self._out = b""

    @property
    def delivered(self) -> bool:
        return self.text_bytes > 0

    def open(self, usage: Usage) -> None:  # noqa: ARG002 - the protocol's
        self._out += render({"by": self._model})

    def write(self, event: Json) -> None:
        for choice in event["choices"]:
            if choice["finish_reason"] == "length":
                self._end = "cut"
            if words := choice["delta"].get("content"):
                self.text_bytes += count_text(words)
                self._out += render({"w": words})

    def flush(self) -> None:
        return

    def close(self, usage: Usage) -> None:
        self._out += render({"end": self._end, "used": write_used(usage)})

    def finish(self) -> bytes:
        return BYE

    def take(self) -> bytes:
        out, self._out = self._out, b""
        return out


def ask_tiny(request: CompletionRequest, target: Target) -> Json:  # noqa: ARG001 - the protocol's
    """Translate the request of a chat caller for a tiny upstream."""
    body = Field(request.body)
    for name in request.body:
        if name not in KNOWN:
            raise body[name].refuse_field()
    lines = [
        [SPEAKERS[message.get("role")], message["content"].read_string()]
        for message in body["messages"].read_items()
    ]
    asked: Json = {"to": request.model, "lines": lines, "flow": request.stream}
    return asked if request.max_tokens is None else {**asked, "most": request.max_tokens}


def tell_chat(reply: Json, context: ReplyContext, usage: Usage) -> Json:
    """Translate the reply of a tiny upstream for a chat caller."""
    message = {"role": "assistant", "content": reply["words"], "refusal": None}
    finish = "length" if reply["end"] == "cut" else "stop"
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": finish}
    head = make_head(context, "chat.completion")
    return {**head, "choices": [choice], "usage": make_chat_usage(usage.tokens)}


def make_head(context: ReplyContext, kind: str) -> Json:
    identity = f"chatcmpl-{context.request_id}"
    model = context.request.model
    return {"id": identity, "object": kind, "created": context.created, "model": model}


class ChatWriter:
    """Writes chat chunks from tiny events."""

    position = None

    def __init__(self, context: ReplyContext) -> None:
        self.text_bytes = 0
        self._head = make_head(context, "chat.completion.chunk")
        self._wants_usage = context.request.wants_usage
        self._finish = "stop"
        self._out = b""

    @property
    def delivered(self) -> bool:
        return self.text_bytes > 0

    def open(self, usage: Usage) -> None:  # noqa: ARG002 - the protocol's
        self._write({"role": "assistant", "content": ""})

    def write(self, event: Json) -> None:
        if event.get("end") == "cut":
            self._finish = "length"
        if words := event.get("w"):
            self.text_bytes += count_text(words)
            self._write({"content": words})

    def flush(self) -> None:
        return

    def close(self, usage: Usage) -> None:
        self._write({}, self._finish)
        if self._wants_usage:
            told = make_chat_usage(usage.tokens)
            self._out += render({**self._head, "choices": [], "usage": told})

    def finish(self) -> bytes:
        return DONE

    def take(self) -> bytes:
        out, self._out = self._out, b""
        return out

    def _write(self, delta: Json, finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        self._out += render({**self._head, "choices": [choice]})


TINY_OVER_CHAT = Translation(ask_chat, tell_tiny, TinyWriter)
CHAT_OVER_TINY = Translation(ask_tiny, tell_chat, ChatWriter)
