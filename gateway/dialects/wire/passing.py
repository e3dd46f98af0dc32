"""A stream between equal dialects: its events pass but for edits, most of them without a look inside.

Nearly all events of a stream are equal but for one string, the text fragment, and at OpenAI a second
one, `obfuscation`. A *template* is such an event cut at these strings, the *holes*. It is proven when
it is learned: the event with another text in the hole, the *probe*, reads as the same object with
that text, and what becomes of it was computed by the ordinary way. So whatever matches later needs
no look inside.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.dialects.base import Reader
from gateway.dialects.records import Event, ReplyContext
from gateway.dialects.wire.jsonbytes import STRING_REST, maybe_loads
from gateway.dialects.wire.sse import Framer
from gateway.dialects.wire.stream import PICTURE_BYTES, EventStream
from gateway.usage import count_text

PROBE: Final = "\x00probe\x00"
"""The text in the hole while the conversion is computed; no provider writes NULs."""
PROBE_BYTES: Final = orjson.dumps(PROBE)[1:-1]

_OBFUSCATION: Final = b'"obfuscation":"'

MAX_FRUITLESS: Final = 8
"""Templates learned in a row without a match, after which the events differ too much to learn."""
_MAX_TEMPLATES: Final = 4
"""Templates of one stream, each tried on an event: it mixes text, reasoning and arguments."""
_END_BYTES: Final = 4096
"""Bytes at the end of an oversized chunk that are searched for its usage and finish reason."""


@dataclass(frozen=True, slots=True)
class Template:
    """An event of the upstream around its hole(s), and what goes out around the same text.

    In: `head` TEXT `middle` OBFUSCATION `tail`; out: `out_head` TEXT `out_middle` … `out_tail`.
    Without obfuscation `middle` runs to the event's end and `tail` is empty.
    """

    head: bytes
    middle: bytes
    tail: bytes
    out_head: bytes
    out_middle: bytes
    out_tail: bytes
    tool: tuple[int, int] | None = None
    """The choice and the tool call whose arguments the text is."""

    def pass_run(self, buffer: bytes, position: int, out: list[bytes]) -> tuple[int, int]:
        """Convert the events of this shape from `position` on into `out`: the hot path.

        Returns the index behind them and the UTF-8 bytes of their texts.
        """
        head, middle, tail = self.head, self.middle, self.tail
        out_head, out_middle, out_tail = self.out_head, self.out_middle, self.out_tail
        starts, read_string = buffer.startswith, STRING_REST.match
        head_size, middle_size, tail_size = len(head), len(middle) - 1, len(tail) - 1
        text_bytes, size = 0, len(buffer)
        while position < size and starts(head, position):
            start = position + head_size
            string = read_string(buffer, start)
            if string is None or not starts(middle, (end := string.end()) - 1):
                break
            text = buffer[start : end - 1]
            position_after = end + middle_size
            if tail:
                noise = read_string(buffer, position_after)
                if noise is None or not starts(tail, (noise_end := noise.end()) - 1):
                    break
                out += (out_head, text, out_middle, buffer[position_after : noise_end - 1])
                out.append(out_tail)
                position = noise_end + tail_size
            else:
                out += (out_head, text, out_middle)
                position = position_after
            plain = b"\\" not in text and text.isascii()
            text_bytes += len(text) if plain else count_text_bytes(text)
        return position, text_bytes


def count_text_bytes(escaped: bytes) -> int:
    """Count the UTF-8 bytes that the inside of a JSON string stands for."""
    text = maybe_loads(b'"' + escaped + b'"')
    return len(escaped) if text is None else count_text(text)


def maybe_cut(
    block: bytes, probed: dict[str, Any], key: str, text: str
) -> tuple[bytes, bytes] | None:
    """Cut `block` before and behind the inside of its text, proven by reading it with the probe."""
    for separator in (b'":"', b'": "'):
        needle = b'"' + key.encode() + separator
        at = block.find(needle)
        while at >= 0:
            start = at + len(needle)
            rest = STRING_REST.match(block, start)
            if rest and maybe_loads(b'"' + block[start : rest.end()]) == text:
                head, behind = block[:start], block[rest.end() - 1 :]
                payload = head[block.find(b"{") :] + PROBE_BYTES + behind
                if maybe_loads(payload.rstrip()) == probed:
                    return head, behind
            at = block.find(needle, at + 1)
    return None


def maybe_learn(
    head: bytes, behind: bytes, converted: bytes, tool: tuple[int, int] | None
) -> Template | None:
    """Make the template of a cut block and of its conversion with the probe in the hole."""
    out_head, probe, out_behind = converted.partition(PROBE_BYTES)
    if not probe or PROBE_BYTES in out_behind:
        return None
    middle, key, rest = behind.partition(_OBFUSCATION)
    out_middle, out_key, out_rest = out_behind.partition(_OBFUSCATION)
    string, out_string = STRING_REST.match(rest), STRING_REST.match(out_rest)
    if not key or not out_key or not string or not out_string:
        return Template(head, behind, b"", out_head, out_behind, b"", tool)
    if _OBFUSCATION in rest:
        return None
    return Template(
        head,
        middle + key,
        rest[string.end() - 1 :],
        out_head,
        out_middle + out_key,
        out_rest[out_string.end() - 1 :],
        tool,
    )


class PassingStream(EventStream):
    """The part of a passing `Pipeline` that does not depend on what an event says."""

    __slots__ = (
        "_begun",
        "_carried",
        "_may_learn",
        "_oversized_end",
        "_passed_bytes",
        "_templates",
    )

    def __init__(self, context: ReplyContext, reader: Reader) -> None:
        super().__init__(context, reader, Framer())
        self._begun = False
        self._carried = False
        """Something that is no text passed, such as a tool's name."""
        self._templates: list[Template] = []
        self._may_learn = MAX_FRUITLESS
        """Templates that may still be learned before one matches."""
        self._passed_bytes = 0
        """Part of `_text_bytes`: all but the oversized events."""
        self._oversized_end = b""

    @property
    def begun(self) -> bool:
        return self._begun or self._framer.oversized_events > 0

    @property
    def delivered(self) -> bool:
        return self._carried or self._text_bytes > 0

    @property
    def mid_event(self) -> bool:
        return self._framer.mid_event

    @property
    def _text_bytes(self) -> int:
        return self._passed_bytes + self._framer.oversized_events * PICTURE_BYTES

    def _match(self, buffer: bytes, position: int, out: list[bytes]) -> int:
        for template in self._templates:
            after, text_bytes = template.pass_run(buffer, position, out)
            if after > position:
                self._may_learn = MAX_FRUITLESS
                self._passed_bytes += text_bytes
                if template.tool is not None:
                    self._continue_tool(template.tool)
                return after
        return position

    def _learn(
        self, head: bytes, behind: bytes, converted: bytes, tool: tuple[int, int] | None = None
    ) -> None:
        """Keep the template of an event cut at its text, given what became of it with the probe."""
        template = maybe_learn(head, behind, converted, tool)
        if template is not None:
            self._templates = [template, *self._templates[: _MAX_TEMPLATES - 1]]

    def _pass_event(self, event: Event, block: bytes, out: list[bytes]) -> None:
        out += (comment + b"\n\n" for comment in event.comments)
        out.append(self._edit_event(event, block))

    def _pass_oversized(self, piece: bytes) -> bytes:
        self._oversized_end = (self._oversized_end + piece)[-_END_BYTES:]
        if not self._framer.mid_event:
            self._read_end(self._oversized_end)
            self._oversized_end = b""
        return piece

    def _read_end(self, end: bytes) -> None:
        """Read the last bytes of an oversized event, which may say how much was used."""

    @abstractmethod
    def _edit_event(self, event: Event, block: bytes) -> bytes:
        """Return what goes out for one whole event that fits no template."""

    def _continue_tool(self, tool: tuple[int, int]) -> None:
        """Note that arguments of a call passed by a template."""
