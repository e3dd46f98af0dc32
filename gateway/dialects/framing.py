"""A stream's bytes, in any slicing, as buffers that hold whole events. No I/O."""

from __future__ import annotations

from gateway.dialects.jsonbytes import loads_lenient
from gateway.sse import BOM, MAX_EVENT_BYTES, Carry, find_event_end, parse_event


class Framer:
    """Keeps what is not whole yet; an event beyond `most_bytes` passes in pieces, unread.

    `push` gives what passes as it is and a buffer to take whole events from; what is left of the
    buffer goes to `keep`.
    """

    __slots__ = ("_carry", "_most_bytes", "_started", "_tail", "mid_event", "oversized_bytes")

    def __init__(self, most_bytes: int = MAX_EVENT_BYTES) -> None:
        self._most_bytes = most_bytes
        self._carry = Carry()
        self._started = False
        self._tail = b""
        """The last bytes that passed unread: a blank line may have begun in them."""
        self.mid_event = False
        """An oversized event is passing."""
        self.oversized_bytes = 0
        """How much passed unread."""

    def push(self, data: bytes) -> tuple[bytes, bytes]:
        """What passes unread, and a buffer that begins with an event (empty: nothing to scan)."""
        passed = b""
        if self.mid_event:
            passed, data = self._pass_oversized(data)
            if not data:
                return passed, b""
        buffer = self._carry.join(data)
        if buffer is None:
            return passed + self._check_size(), b""
        if not self._started:
            if len(buffer) < len(BOM) and BOM.startswith(buffer):
                self._carry.keep(buffer)
                return passed, b""
            self._started = True
            buffer = buffer.removeprefix(BOM)
        return passed, buffer

    def keep(self, rest: bytes) -> bytes:
        """Keep what is not a whole event yet; gives what of it passes, being too large to keep."""
        self._carry.keep(rest)
        return self._check_size()

    def take_last(self) -> bytes:
        """At the clean end: a block that lacks nothing but its blank line, with it; else b""."""
        rest = self._carry.take()
        payload = None if self.mid_event else parse_event(rest).data
        if payload is None:
            return b""
        if payload.strip() != b"[DONE]":
            try:
                loads_lenient(payload)
            except ValueError:
                return b""
        return rest.rstrip(b"\r\n") + b"\n\n"

    def _check_size(self) -> bytes:
        if self._carry.size <= self._most_bytes:
            return b""
        self.mid_event = True
        passed, _ = self._pass_oversized(self._carry.take())
        return passed

    def _pass_oversized(self, data: bytes) -> tuple[bytes, bytes]:
        """Up to the oversized event's boundary: what passes, and what is behind it."""
        tail = self._tail
        end = find_event_end(tail + data, 0)
        if end < 0:
            self.oversized_bytes += len(data)
            self._tail = (tail + data)[-3:]
            return data, b""
        end -= len(tail)
        self.oversized_bytes += end
        self.mid_event = False
        self._tail = b""
        return data[:end], data[end:]
