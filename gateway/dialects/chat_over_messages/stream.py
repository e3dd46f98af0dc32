"""A messages stream as a chat stream: its events as chunks.

The finish reason waits for the end, since a later `message_delta` may revise it, and the last
chunk of a choice must be its last.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Final

from gateway.dialects.chat import DONE, ID_PREFIX
from gateway.dialects.chat_over_messages.reply import (
    NO_ARGUMENTS,
    make_usage,
    read_refusal,
    to_finish_reason,
)
from gateway.dialects.chat_over_messages.tools import uses_functions
from gateway.dialects.messages import dump_arguments
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.wire import dumps_lenient
from gateway.usage import count_text

_TEXT_KEYS: Final = {"text": "content", "thinking": "reasoning_content"}
"""The chat delta's key by the block's type, which is also the key of the block's text."""
_FRAGMENTS: Final = {"text_delta": "text", "thinking_delta": "thinking"}


@dataclass(slots=True)
class _Call:
    """A tool's block while it is open."""

    number: int
    """Its number among the tools' blocks alone, which are what chat counts."""
    input: object
    """The start's arguments: none, unless the upstream sends them in one piece."""
    said: bool = False
    """A fragment of arguments has come."""


class ChunkWriter:
    """A `Writer` of chat chunks."""

    __slots__ = (
        "_calls",
        "_chunk_end",
        "_count",
        "_functions",
        "_head",
        "_out",
        "_stop_details",
        "_stop_reason",
        "_wants_usage",
        "text_bytes",
    )

    position: Final = None

    def __init__(self, context: ReplyContext) -> None:
        request = context.request
        head = {
            "id": ID_PREFIX + context.request_id,
            "object": "chat.completion.chunk",
            "created": context.created,
            "model": request.model,
        }
        self.text_bytes = 0
        self._functions = uses_functions(request.body)
        self._wants_usage = request.wants_usage
        self._head = b"data: " + dumps_lenient(head)[:-1] + b',"choices":['
        self._chunk_end = b',"usage":null}\n\n' if request.wants_usage else b"}\n\n"
        self._calls: dict[int, _Call] = {}
        self._count = 0
        self._stop_reason: object = None
        self._stop_details: object = None
        self._out: list[bytes] = []

    @property
    def delivered(self) -> bool:
        return self.text_bytes > 0 or self._count > 0

    def open(self, usage: Usage) -> None:  # noqa: ARG002 - chat tells it at the end
        self._write({"role": "assistant", "content": "", "refusal": None})

    def write(self, event: Json) -> None:
        write = self._WRITERS.get(event["type"])
        if write is not None:
            write(self, event)

    def flush(self) -> None:
        for index in list(self._calls):
            self._close_block({"index": index})

    def close(self, usage: Usage) -> None:
        """Write the last chunk of the choice, the refusal before it, and the usage chunk."""
        refusal = read_refusal(self._stop_reason, self._stop_details)
        if refusal is not None:
            self._write({"refusal": refusal})
        called = self._count > 0
        finish = to_finish_reason(self._stop_reason, called=called, functions=self._functions)
        self._write({}, finish)
        if self._wants_usage:
            self._out += (self._head, b'],"usage":', dumps_lenient(make_usage(usage)), b"}\n\n")

    def finish(self) -> bytes:
        return DONE

    def take(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def _open_block(self, event: Json) -> None:
        index, block = _read_index(event), event.get("content_block")
        self._close_block(event)
        if not isinstance(block, dict):
            return
        kind = block.get("type")
        if kind == "tool_use":
            call = self._calls[index] = _Call(self._count, block.get("input"))
            self._count += 1
            function = {"name": block.get("name"), "arguments": ""}
            self._write_call(call, {"id": block.get("id"), "type": "function"}, function)
        elif isinstance(kind, str) and kind in _TEXT_KEYS:
            self._write_text(kind, block.get(kind))

    def _add_delta(self, event: Json) -> None:
        """Write a fragment; signatures and citations have no place in chat."""
        delta = event.get("delta")
        if not isinstance(delta, dict):
            return
        kind = delta.get("type")
        call = self._calls.get(_read_index(event))
        if kind == "input_json_delta" and call is not None:
            self._write_arguments(call, delta.get("partial_json"))
        elif isinstance(kind, str) and kind in _FRAGMENTS:
            self._write_text(_FRAGMENTS[kind], delta.get(_FRAGMENTS[kind]))

    def _close_block(self, event: Json) -> None:
        call = self._calls.pop(_read_index(event), None)
        if call is None or call.said:
            return
        self._write_arguments(call, dump_arguments(call.input))
        if not call.said:
            self._write_call(call, {}, {"arguments": NO_ARGUMENTS})

    def _note_stop(self, event: Json) -> None:
        delta = event.get("delta")
        if isinstance(delta, dict):
            self._stop_reason = delta.get("stop_reason") or self._stop_reason
            self._stop_details = delta.get("stop_details") or self._stop_details

    def _write_text(self, kind: str, text: object) -> None:
        if isinstance(text, str) and text:
            self.text_bytes += count_text(text)
            self._write({_TEXT_KEYS[kind]: text})

    def _write_arguments(self, call: _Call, fragment: object) -> None:
        if isinstance(fragment, str) and fragment:
            call.said = True
            self.text_bytes += count_text(fragment)
            self._write_call(call, {}, {"arguments": fragment})

    def _write_call(self, call: _Call, head: Json, function: Json) -> None:
        if not self._functions:
            item = {"index": call.number, **head, "function": function}
            self._write({"tool_calls": [item]})
        elif call.number == 0:
            self._write({"function_call": function})

    def _write(self, delta: Json, finish_reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        self._out += (self._head, dumps_lenient(choice), b"]", self._chunk_end)

    _WRITERS: ClassVar[dict[str, Callable[[ChunkWriter, Json], None]]] = {
        "content_block_start": _open_block,
        "content_block_delta": _add_delta,
        "content_block_stop": _close_block,
        "message_delta": _note_stop,
    }
    """Keys are event types; what is not here says nothing to a chat caller."""


def _read_index(event: Json) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else -1
