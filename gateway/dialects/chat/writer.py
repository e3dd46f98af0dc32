"""Replies and streams written from another dialect's: the part that all translations to chat share."""

from __future__ import annotations

from collections import Counter
from typing import Final, Literal

from gateway.dialects.base import EventWriter
from gateway.dialects.chat.state import STATE
from gateway.dialects.chat.stream import DONE, ID_PREFIX
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.wire.jsonbytes import dumps_lenient
from gateway.dialects.wire.seals import seal, seal_id
from gateway.usage import count_text

NO_ARGUMENTS: Final = "{}"
"""The arguments of a call without any: callers read them as JSON."""

ToolKind = Literal["function", "custom"]
ARGUMENTS: Final[dict[ToolKind, str]] = {"function": "arguments", "custom": "input"}
"""The key of a call's arguments by the type of its tool, which is also the key of the tool."""


def uses_functions(body: Json) -> bool:
    """Return whether the caller uses functions, as chat did before tools, and expects them in replies."""
    return bool(body.get("functions")) and not body.get("tools")


def make_message(
    text: str,
    refusal: str | None,
    reasoning: str,
    calls: list[Json],
    *,
    functions: bool,
    **lists: list[Json],
) -> Json:
    """Write the message of a reply.

    `functions`: the caller knows no tools; `lists`: further members, left out where they are empty.
    """
    message: Json = {
        "role": "assistant",
        "content": None if calls and not text else text,
        "refusal": refusal or None,
    }
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls and functions:
        message["function_call"] = calls[0].get("function")
    elif calls:
        message["tool_calls"] = calls
    return message | {key: held for key, held in lists.items() if held}


def carry_state(message: Json, sealed: str, context: ReplyContext) -> None:
    """Put a seal into a message: where a translation reads it, or behind the id of the first call."""
    if context.is_pivot:
        message[STATE] = {"sealed": sealed}
    elif calls := message.get("tool_calls"):
        calls[0]["id"] = seal_id(calls[0]["id"] or "", sealed)


def make_completion(message: Json, finish_reason: str, context: ReplyContext, usage: Json) -> Json:
    """Write a reply of one message."""
    return {
        "id": ID_PREFIX + context.request_id,
        "object": "chat.completion",
        "created": context.created,
        "model": context.request.model,
        "choices": [
            {"index": 0, "message": message, "logprobs": None, "finish_reason": finish_reason}
        ],
        "usage": usage,
    }


class ChoiceWriter(EventWriter):
    """The part of a `EventWriter` that writes the chunks of the one choice."""

    __slots__ = (
        "_chunk_end", "_content_chars", "_context", "_count", "_functions", "_head", "_listed",
        "_out", "_state", "_wants_usage", "text_bytes",
    )  # fmt: skip

    text_bytes: int

    def __init__(self, context: ReplyContext) -> None:
        request = context.request
        head = {
            "id": ID_PREFIX + context.request_id,
            "object": "chat.completion.chunk",
            "created": context.created,
            "model": request.model,
        }
        self.text_bytes = 0
        self._context = context
        self._state: list[Json] = []
        """The blocks or items that the upstream wants back with the next call."""
        self._functions = uses_functions(request.body)
        self._wants_usage = request.wants_usage
        self._head = b"data: " + dumps_lenient(head)[:-1] + b',"choices":['
        self._chunk_end = b',"usage":null}\n\n' if request.wants_usage else b"}\n\n"
        self._count = 0
        """Calls so far."""
        self._content_chars = 0
        """Characters of `content` so far."""
        self._listed: Counter[str] = Counter()
        """Entries of `annotations` and `images` so far."""
        self._out: list[bytes] = []

    @property
    def delivered(self) -> bool:
        return self.text_bytes > 0 or self._count > 0

    def open(self, usage: Usage) -> None:  # noqa: ARG002 - chat tells it at the end
        self._write({"role": "assistant", "content": "", "refusal": None})

    def finish(self) -> bytes:
        return DONE

    def take(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _write_text(self, key: str, text: object) -> None:
        """Write a fragment of `content`, `reasoning_content` or `refusal`."""
        if isinstance(text, str) and text:
            self.text_bytes += count_text(text)
            self._content_chars += len(text) if key == "content" else 0
            self._write({key: text})

    def _write_listed(self, key: Literal["annotations", "images"], entry: Json) -> None:
        """Write an entry of a list; OpenAI's SDKs, which add up deltas, want it to be numbered."""
        self._write({key: [{"index": self._listed[key], **entry}]})
        self._listed[key] += 1

    def _begin_call(self, identity: object, name: object, kind: ToolKind = "function") -> int:
        """Write a call's first fragment; return the call's number."""
        number = self._count
        self._count += 1
        # Calls come back with the next request in every client; other members may be dropped.
        if self._state:
            sealed = seal(self._state, self._context.provider_tag)
            identity, self._state = seal_id(str(identity or ""), sealed), []
        tool = {"name": name, ARGUMENTS[kind]: ""}
        self._write_call(number, {"id": identity, "type": kind}, kind, tool)
        return number

    def _note_state(self, held: Json) -> None:
        """Take something that the upstream wants back: the next call carries it, or a translation."""
        if self._context.is_pivot:
            self._write({STATE: {"sealed": seal([held], self._context.provider_tag)}})
        else:
            self._state.append(held)

    def _write_arguments(self, number: int, fragment: str, kind: ToolKind = "function") -> None:
        self.text_bytes += count_text(fragment)
        self._write_call(number, {}, kind, {ARGUMENTS[kind]: fragment})

    def _write_call(self, number: int, head: Json, kind: ToolKind, tool: Json) -> None:
        if not self._functions:
            self._write({"tool_calls": [{"index": number, **head, kind: tool}]})
        elif number == 0:
            self._write({"function_call": tool})

    def _write_end(self, finish_reason: str, usage: Json) -> None:
        """Write the last chunk of the choice, and the usage chunk if the caller asked for it."""
        self._write({}, finish_reason)
        if self._wants_usage:
            self._out += (self._head, b'],"usage":', dumps_lenient(usage), b"}\n\n")

    def _write(self, delta: Json, finish_reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        self._out += (self._head, dumps_lenient(choice), b"]", self._chunk_end)
