"""The bytes of a chat stream as parsed chunks, whole ones only. No I/O."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.jsonbytes import loads_lenient
from gateway.dialects.upstream_errors import read_error
from gateway.errors import UpstreamError
from gateway.sse import BOM, Carry, find_event_end, parse_event

MAX_TRANSLATED_EVENT_BYTES: Final = 8 << 20
"""An event has to be whole before it can be translated; a longer one is a failure."""

_DONE: Final = b"[DONE]"
_DONE_LINE: Final = b"data: [DONE]"
_UNSAID: Final = "The upstream ended its stream with an error."

Json = dict[str, Any]


class ChatEvents:
    """Bytes in any slicing in, chunks and comments out. After `done` or `failure`: nothing."""

    __slots__ = ("_carry", "_started", "done", "failure")

    def __init__(self) -> None:
        self.done = False
        """`[DONE]` was seen."""
        self.failure: UpstreamError | None = None
        self._carry = Carry()
        self._started = False

    def feed(self, data: bytes) -> list[Json | bytes]:
        """The chunks that are whole now; a comment is bytes, with its blank line."""
        buffer = self._carry.join(data)
        out: list[Json | bytes] = []
        if buffer is not None:
            if not self._started:
                if len(buffer) < len(BOM) and BOM.startswith(buffer):
                    self._carry.keep(buffer)
                    return out
                self._started = True
                buffer = buffer.removeprefix(BOM)
            position = self._scan(buffer, out)
            if not self.done and self.failure is None:
                self._carry.keep(buffer[position:] if position else buffer)
        if self._carry.size > MAX_TRANSLATED_EVENT_BYTES:
            self.failure = UpstreamError("The upstream sent a stream event that is too large.")
        return out

    def end(self) -> list[Json | bytes]:
        """The clean end: a last block without its blank line is used if it is whole."""
        out: list[Json | bytes] = []
        payload = parse_event(self._carry.take()).data
        if payload is None or self.done or self.failure is not None:
            return out
        if payload.strip() != _DONE:
            try:
                loads_lenient(payload)
            except ValueError:
                return out
        self._read_block(b"data: " + payload + b"\n\n", out)
        return out

    def _scan(self, buffer: bytes, out: list[Json | bytes]) -> int:
        """Read the whole events of `buffer`; the index of the first byte not used."""
        position = 0
        while position < len(buffer):
            end = find_event_end(buffer, position)
            if end < 0:
                rest = buffer[position : position + len(_DONE_LINE) + 4]
                # `[DONE]` counts with its line; no blank line need follow.
                self.done = rest.startswith(_DONE_LINE) and b"\n" in rest
                return position
            self._read_block(buffer[position:end], out)
            position = end
            if self.done or self.failure is not None:
                break
        return position

    def _read_block(self, block: bytes, out: list[Json | bytes]) -> None:
        event = parse_event(block)
        out += [comment + b"\n\n" for comment in event.comments]
        if event.data is None:
            return
        payload = event.data.strip()
        if payload == _DONE:
            self.done = True
            return
        try:
            chunk = loads_lenient(payload)
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict):
            self.failure = UpstreamError("The upstream sent a stream event that is not JSON.")
        elif event.name == "error" or chunk.get("error") or chunk.get("object") == "error":
            self.failure = UpstreamError(read_error(chunk).message or _UNSAID)
        else:
            out.append(chunk)
