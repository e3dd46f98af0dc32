"""One stream from a chat upstream to a messages caller (wire.md §5.4). No I/O.

`message_delta`, which has the stop reason and the whole usage, is held back until the upstream's
stream is over: usage may come with the finish reason, behind it, or in every chunk, and what the
caller is told is what is charged. `message_stop` is `finish`'s: it leaves once the charge is
committed. The endings are those of `ChatStream`.
"""

from __future__ import annotations

from typing import Any

from gateway.dialects.base import ReplyContext
from gateway.dialects.chat_repair import ChunkRepair
from gateway.dialects.from_chat_blocks import BlockWriter
from gateway.dialects.from_chat_events import ChatEvents
from gateway.dialects.from_chat_shapes import (
    Json,
    Stop,
    check_finish,
    make_delta_usage,
    make_message,
    make_usage,
    map_stop,
    read_content,
    read_reasoning,
    render_event,
)
from gateway.dialects.jsonbytes import dumps_lenient
from gateway.errors import GatewayError, UpstreamError
from gateway.money import Tokens
from gateway.usage import estimate_tokens, read_chat_usage


class ChatToMessagesStream:
    """A `Pipeline`: a chat upstream's bytes in, messages events out."""

    __slots__ = (
        "_blocks",
        "_context",
        "_events",
        "_index",
        "_last",
        "_refusal",
        "_repair",
        "_usage",
        "begun",
        "complete",
        "failure",
        "mid_event",
    )

    def __init__(self, context: ReplyContext) -> None:
        self.begun = False
        self.complete = False
        self.failure: GatewayError | None = None
        self.mid_event = False
        self._context = context
        self._events = ChatEvents()
        self._repair = ChunkRepair()
        self._blocks = BlockWriter(context)
        self._usage: Json | None = None
        self._index: int | None = None
        """Of the one choice that is told; a messages request asks for no more."""
        self._last: Json | None = None
        """The choice as it was when it had its finish reason."""
        self._refusal = ""

    @property
    def finished(self) -> bool:
        return self._last is not None

    @property
    def delivered(self) -> bool:
        return self._blocks.text_bytes > 0

    def feed(self, data: bytes) -> bytes:
        return self._convert(self._events.feed(data))

    def end(self) -> bytes:
        if self.complete or self.failure is not None:
            return b""
        out = self._convert(self._events.end())
        if self.finished and not self.complete and self.failure is None:
            out += self._close()
        return out

    def finish(self) -> bytes:
        return render_event({"type": "message_stop"})

    def measure(self) -> tuple[Tokens, bool]:
        delivered = estimate_tokens(self._blocks.text_bytes)
        reported = read_chat_usage(self._usage, self._context.limits)
        if reported is None:
            return Tokens(input=self._context.input_estimate, output=delivered), True
        if self.complete or delivered <= reported.output:
            return reported, False
        cached, written = reported.cached_input, reported.cache_write
        return Tokens(reported.input, cached, written, delivered), True

    def _convert(self, items: list[Json | bytes]) -> bytes:
        """The events for what the upstream's bytes held, up to the first failure."""
        out: list[bytes] = []
        for item in items:
            out.append(item if isinstance(item, bytes) else self._convert_chunk(item))
            if self.failure is not None:
                return b"".join(out)
        self.failure = self._events.failure
        if self._events.done and self.failure is None:
            out.append(self._close())
        return b"".join(out)

    def _convert_chunk(self, chunk: Json) -> bytes:
        usage = chunk.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        choices = chunk.get("choices")
        if not isinstance(choices, list) or not choices:
            return b""
        head = b""
        try:
            for repaired in self._repair.repair(chunk) or [chunk]:
                for choice in repaired["choices"]:
                    if isinstance(choice, dict):
                        head = head or self._begin()
                        self._read_choice(choice)
        except UpstreamError as error:
            self.failure = error
        return head + self._blocks.take()

    def _begin(self) -> bytes:
        """`message_start`, once, with the usage as far as it is known."""
        if self.begun:
            return b""
        self.begun = True
        tokens = read_chat_usage(self._usage, self._context.limits) or Tokens()
        message = make_message(self._context, [], Stop(), make_usage(tokens, self._usage))
        return render_event({"type": "message_start", "message": message})

    def _read_choice(self, choice: Json) -> None:
        if self._index is None:
            self._index = choice["index"]
        if choice["index"] != self._index:
            return
        delta = choice.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        thinking, text = read_content(delta.get("content"))
        self._blocks.add_text("thinking", read_reasoning(delta) or thinking)
        self._blocks.add_text("text", text)
        if isinstance(refusal := delta.get("refusal"), str):
            self._refusal += refusal
            self._blocks.add_text("text", refusal)
        calls = delta.get("tool_calls")
        for call in calls if isinstance(calls, list) else ():
            if isinstance(call, dict):
                self._read_call(call)
        if choice.get("finish_reason") is not None:
            check_finish(choice["finish_reason"])
            self._last = choice
            self._blocks.finish()

    def _read_call(self, call: Json) -> None:
        function = call.get("function")
        function = function if isinstance(function, dict) else {}
        arguments = function.get("arguments")
        if isinstance(arguments, dict):
            arguments = dumps_lenient(arguments).decode()
        self._blocks.add_call(
            call["index"],
            _read_string(call.get("id")),
            _read_string(function.get("name")),
            _read_string(arguments),
        )

    def _close(self) -> bytes:
        """The upstream's terminal event: what waits, and `message_delta`."""
        if not self.begun:
            self.failure = UpstreamError("The upstream's stream ended before it began.")
            return b""
        try:
            self._blocks.finish()
        except UpstreamError as error:
            self.failure = error
            return self._blocks.take()
        self.complete = True
        stop = map_stop(
            self._last or {},
            self._context,
            called_tools=self._blocks.called_tools,
            refusal=self._refusal,
        )
        usage = make_delta_usage(self.measure()[0], self._usage)
        event = {"type": "message_delta", "delta": stop.fields, "usage": usage}
        return self._blocks.take() + render_event(event)


def _read_string(value: Any) -> str:
    return value if isinstance(value, str) else ""
