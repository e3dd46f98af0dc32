"""The bytes of a chat stream as parsed chunks, whole ones only. No I/O."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.framing import Framer
from gateway.dialects.jsonbytes import loads_lenient
from gateway.dialects.upstream_errors import read_error
from gateway.errors import UpstreamError
from gateway.sse import find_event_end, parse_event

MAX_TRANSLATED_EVENT_BYTES: Final = 8 << 20
"""An event has to be whole before it can be translated; a longer one is a failure."""

_DONE: Final = b"[DONE]"
_DONE_LINE: Final = b"data: [DONE]"
_UNSAID: Final = "The upstream ended its stream with an error."

Json = dict[str, Any]


class ChatEvents:
    """Bytes in any slicing in, chunks and comments out. After `done` or `failure`: nothing."""

    __slots__ = ("_framer", "done", "failure")

    def __init__(self) -> None:
        self.done = False
        """`[DONE]` was seen."""
        self.failure: UpstreamError | None = None
        self._framer = Framer(MAX_TRANSLATED_EVENT_BYTES)

    def feed(self, data: bytes) -> list[Json | bytes]:
        """The chunks that are whole now; a comment is bytes, with its blank line."""
        out: list[Json | bytes] = []
        _, buffer = self._framer.push(data)
        position = self._scan(buffer, out)
        if not self.done and self.failure is None and buffer:
            self._framer.keep(buffer[position:])
        if self._framer.mid_event:
            self.failure = UpstreamError("The upstream sent a stream event that is too large.")
        return out

    def end(self) -> list[Json | bytes]:
        """The clean end: a last block without its blank line is used if it is whole."""
        out: list[Json | bytes] = []
        last = self._framer.take_last()
        if last and not self.done and self.failure is None:
            self._read_block(last, out)
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
