"""Chat chunks of what a messages stream says, block by block (wire.md §5.4). No I/O."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.base import ReplyContext
from gateway.dialects.chat_stream import ID_PREFIX
from gateway.dialects.from_messages_reply import NO_ARGUMENTS, dump_arguments
from gateway.dialects.jsonbytes import dumps_lenient
from gateway.dialects.to_messages_tools import uses_functions

Json = dict[str, Any]

_TEXT_KEYS: Final = {"text": "content", "thinking": "reasoning_content"}
"""The delta's key by the block's type, under which its text stands as well."""
_FRAGMENTS: Final = {"text_delta": "text", "thinking_delta": "thinking"}


@dataclass(slots=True)
class _Call:
    """A tool's block while it is open."""

    number: int
    """Among the tools' blocks alone, which is what chat counts."""
    input: object
    """What its start brought: nothing, unless the upstream sends arguments in one piece."""
    said: bool = False
    """Whether a fragment of arguments has come."""


class ChunkWriter:
    """Chunks in the making; `take` gives those that are ready as events."""

    __slots__ = (
        "_calls",
        "_chunk_end",
        "_count",
        "_head",
        "_out",
        "functions",
        "opened",
        "text_bytes",
    )

    def __init__(self, context: ReplyContext, created: int) -> None:
        request = context.request
        head = {
            "id": ID_PREFIX + context.request_id,
            "object": "chat.completion.chunk",
            "created": created,
            "model": request.model,
        }
        self.functions = uses_functions(request.body)
        self.opened = False
        self.text_bytes = 0
        """UTF-8 bytes of text, thinking and arguments so far."""
        self._head = b"data: " + dumps_lenient(head)[:-1] + b',"choices":['
        self._chunk_end = b',"usage":null}\n\n' if request.wants_usage else b"}\n\n"
        self._calls: dict[int, _Call] = {}
        self._count = 0
        self._out: list[bytes] = []

    @property
    def called(self) -> bool:
        return self._count > 0

    def take(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    def open(self) -> None:
        """The role chunk, once: some upstreams begin twice, others not at all."""
        if not self.opened:
            self.opened = True
            self._write({"role": "assistant", "content": "", "refusal": None})

    def open_block(self, index: int, block: Json) -> None:
        self.open()
        self.close_block(index)
        kind = block.get("type")
        if kind == "tool_use":
            call = self._calls[index] = _Call(self._count, block.get("input"))
            self._count += 1
            function = {"name": block.get("name"), "arguments": ""}
            self._write_call(call, {"id": block.get("id"), "type": "function"}, function)
        elif isinstance(kind, str) and kind in _TEXT_KEYS:
            self._write_text(kind, block.get(kind))

    def add_delta(self, index: int, delta: Json) -> None:
        """Signatures and citations have no place in chat."""
        self.open()
        kind = delta.get("type")
        call = self._calls.get(index)
        if kind == "input_json_delta" and call is not None:
            self._write_arguments(call, delta.get("partial_json"))
        elif isinstance(kind, str) and kind in _FRAGMENTS:
            self._write_text(_FRAGMENTS[kind], delta.get(_FRAGMENTS[kind]))

    def close_block(self, index: int) -> None:
        call = self._calls.pop(index, None)
        if call is None or call.said:
            return
        self._write_arguments(call, dump_arguments(call.input))
        if not call.said:
            self._write_call(call, {}, {"arguments": NO_ARGUMENTS})

    def close(self, finish_reason: str, refusal: str | None) -> None:
        """The last chunk of the choice, behind what the upstream left open."""
        self.open()
        for index in list(self._calls):
            self.close_block(index)
        if refusal is not None:
            self._write({"refusal": refusal})
        self._write({}, finish_reason)

    def add_usage(self, usage: Json) -> None:
        self._out += (self._head, b'],"usage":', dumps_lenient(usage), b"}\n\n")

    def _write_text(self, kind: str, text: object) -> None:
        if isinstance(text, str) and text:
            self._count_bytes(text)
            self._write({_TEXT_KEYS[kind]: text})

    def _write_arguments(self, call: _Call, fragment: object) -> None:
        if isinstance(fragment, str) and fragment:
            call.said = True
            self._count_bytes(fragment)
            self._write_call(call, {}, {"arguments": fragment})

    def _write_call(self, call: _Call, head: Json, function: Json) -> None:
        if not self.functions:
            item = {"index": call.number, **head, "function": function}
            self._write({"tool_calls": [item]})
        elif call.number == 0:
            self._write({"function_call": function})

    def _write(self, delta: Json, finish_reason: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish_reason}
        self._out += (self._head, dumps_lenient(choice), b"]", self._chunk_end)

    def _count_bytes(self, text: str) -> None:
        self.text_bytes += len(text.encode("utf-8", "surrogatepass"))
