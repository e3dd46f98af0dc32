"""One stream from a messages upstream to a chat caller: translation and meter (wire.md §5.4). No I/O.

The endings are those of `chat_stream`: `complete` after `message_stop` (or a clean end behind the
stop reason), `failure` after an error event or what is no stream, neither after a cut.

The finish reason waits for the end, since a later `message_delta` may revise it, and the last
chunk of a choice must be its last.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Final

from gateway.dialects.base import ReplyContext
from gateway.dialects.chat_stream import DONE
from gateway.dialects.framing import Framer
from gateway.dialects.from_messages_chunks import ChunkWriter
from gateway.dialects.from_messages_ending import (
    is_error,
    make_failure,
    make_usage,
    measure_reply,
    read_refusal,
    to_finish_reason,
)
from gateway.dialects.jsonbytes import loads_lenient
from gateway.errors import GatewayError, UpstreamError
from gateway.money import Tokens
from gateway.sse import find_event_end, parse_event

MAX_TRANSLATED_EVENT_BYTES: Final = 8 << 20
"""An event is translated whole; no upstream writes one this long."""

_TERMINATORS: Final = (b"", b"[DONE]")
"""Chat's own, which some imitations of the messages API add; it says nothing here."""

Json = dict[str, Any]


class MessagesAsChat:
    """A `Pipeline`: messages events in, chat chunks out."""

    __slots__ = (
        "_chunks",
        "_context",
        "_counted",
        "_framer",
        "_stop_details",
        "_stop_reason",
        "_usage",
        "complete",
        "failure",
        "mid_event",
    )

    def __init__(self, context: ReplyContext, created: int) -> None:
        """`created` is the time in epoch seconds that all chunks carry."""
        self.complete = False
        self.failure: GatewayError | None = None
        self.mid_event = False
        self._context = context
        self._framer = Framer(MAX_TRANSLATED_EVENT_BYTES)
        self._chunks = ChunkWriter(context, created)
        self._usage: Json | None = None
        self._counted = False
        """Whether a `message_delta` has counted the output: `message_start` only begins to."""
        self._stop_reason: str | None = None
        self._stop_details: object = None

    @property
    def begun(self) -> bool:
        return self._chunks.opened

    @property
    def finished(self) -> bool:
        return self.complete or self._stop_reason is not None

    @property
    def delivered(self) -> bool:
        return self._chunks.text_bytes > 0

    def feed(self, data: bytes) -> bytes:
        _, buffer = self._framer.push(data)
        position = 0
        while not self._is_over() and (end := find_event_end(buffer, position)) >= 0:
            self._read_block(buffer[position:end])
            position = end
        if not self._is_over() and buffer:
            self._framer.keep(buffer[position:])
        if self._framer.mid_event:
            self.failure = UpstreamError("The upstream sent a stream event that is too large.")
        return self._chunks.take()

    def end(self) -> bytes:
        last = self._framer.take_last()
        if last and not self._is_over():
            self._read_block(last)
        if self.begun and self.finished and not self._is_over():
            self._close()
        return self._chunks.take()

    def finish(self) -> bytes:
        return DONE

    def measure(self) -> tuple[Tokens, bool]:
        counted = self.complete and self._counted
        return measure_reply(self._usage, self._chunks.text_bytes, self._context, complete=counted)

    def _is_over(self) -> bool:
        return self.complete or self.failure is not None

    def _read_block(self, block: bytes) -> None:
        event = parse_event(block)
        if event.data is None or event.data.strip() in _TERMINATORS:
            return
        try:
            body = loads_lenient(event.data)
        except ValueError:
            body = None
        if not isinstance(body, dict):
            self.failure = UpstreamError("The upstream sent a stream event that is not JSON.")
        elif event.name == "error" or is_error(body):
            self.failure = make_failure(body)
        else:
            kind = body.get("type")
            reader = self._READERS.get(kind if isinstance(kind, str) else event.name)
            if reader is not None:
                reader(self, body)

    def _read_start(self, event: Json) -> None:
        message = event.get("message")
        if isinstance(message, dict):
            self._note_usage(message.get("usage"))
        self._chunks.open()

    def _read_block_start(self, event: Json) -> None:
        block = event.get("content_block")
        if isinstance(block, dict):
            self._chunks.open_block(_read_index(event), block)

    def _read_block_delta(self, event: Json) -> None:
        delta = event.get("delta")
        if isinstance(delta, dict):
            self._chunks.add_delta(_read_index(event), delta)

    def _read_block_stop(self, event: Json) -> None:
        self._chunks.close_block(_read_index(event))

    def _read_message_delta(self, event: Json) -> None:
        self._counted |= self._note_usage(event.get("usage"))
        delta = event.get("delta")
        if isinstance(delta, dict):
            reason = delta.get("stop_reason")
            self._stop_reason = reason if isinstance(reason, str) else self._stop_reason
            self._stop_details = delta.get("stop_details") or self._stop_details

    def _read_stop(self, event: Json) -> None:  # noqa: ARG002 - it says nothing but its type
        if self._chunks.opened:
            self._close()
        else:
            self.failure = UpstreamError("The upstream's stream ended before it began.")

    def _note_usage(self, usage: object) -> bool:
        """Counts are cumulative: a later one overwrites, an absent one stays (wire.md §4.3).

        Whether the output was counted.
        """
        if not isinstance(usage, dict):
            return False
        told = {key: value for key, value in usage.items() if value is not None}
        self._usage = {**(self._usage or {}), **told}
        return "output_tokens" in told

    def _close(self) -> None:
        self.complete = True
        chunks = self._chunks
        finish = to_finish_reason(
            self._stop_reason, called=chunks.called, functions=chunks.functions
        )
        chunks.close(finish, read_refusal(self._stop_reason, self._stop_details))
        if self._context.request.wants_usage:
            tokens, estimated = self.measure()
            chunks.add_usage(make_usage(tokens, self._usage, estimated=estimated))

    _READERS: ClassVar[dict[str, Callable[[MessagesAsChat, Json], None]]] = {
        "message_start": _read_start,
        "content_block_start": _read_block_start,
        "content_block_delta": _read_block_delta,
        "content_block_stop": _read_block_stop,
        "message_delta": _read_message_delta,
        "message_stop": _read_stop,
    }
    """By event type; a ping and what is unknown say nothing."""


def _read_index(event: Json) -> int:
    index = event.get("index")
    return index if isinstance(index, int) else -1
