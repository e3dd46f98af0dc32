"""A stream between equal dialects: its events pass but for edits, most of them without a look inside.

Nearly all events of a stream are equal but for one string, the text fragment, and at OpenAI a second
one, `obfuscation`. A *template* is such an event cut at these strings, the *holes*. It is proven when
it is learned: the event with another text in the hole, the *probe*, reads as the same object with
that text, and what becomes of it was computed by the ordinary way. So whatever matches later needs
no look inside.
"""

from __future__ import annotations

import functools
import re
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any, Final

import orjson

from gateway.dialects.base import EventReader
from gateway.dialects.records import Event, Json, ReplyContext
from gateway.dialects.wire.jsonbytes import (
    MAX_HITS,
    STRING,
    STRING_REST,
    count_text_bytes,
    dumps_lenient,
    maybe_loads,
)
from gateway.dialects.wire.numbered import NumberedTemplate
from gateway.dialects.wire.sse import Framer, is_canonical, render_event
from gateway.dialects.wire.stream import PICTURE_BYTES, EventStream
from gateway.dialects.wire.usage import hide_bill, maybe_find_end_usage

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
    tool: tuple[int, int] | None
    """The choice and the tool call whose arguments the text is."""
    head_bytes: int
    """The length of `head`."""
    behind_head: re.Pattern[bytes]
    """See `compile_rest`."""

    def maybe_pass_whole(self, data: bytes) -> tuple[bytes, int] | None:
        """Convert one event of this shape that is all of `data`: the hot path.

        Returns what goes out and the UTF-8 bytes of its text.
        """
        if not data.startswith(self.head):
            return None
        rest = self.behind_head.fullmatch(data, self.head_bytes)
        if rest is None:
            return None
        text, special, middle, noise, tail = rest.groups()
        if middle != self.middle or tail != self.tail:
            return None
        text_bytes = count_text_bytes(text) if special else len(text)
        return b"".join((self.out_head, text, self.out_middle, noise, self.out_tail)), text_bytes

    def pass_run(self, buffer: bytes, position: int, out: list[bytes]) -> tuple[int, int]:
        """Convert the events of this shape from `position` on into `out`, one by one.

        Returns the index behind them and the UTF-8 bytes of their texts.
        """
        text_bytes = 0
        while buffer.startswith(self.head, position):
            rest = self.behind_head.match(buffer, position + self.head_bytes)
            if rest is None:
                break
            text, special, middle, noise, tail = rest.groups()
            if middle != self.middle or tail != self.tail:
                break
            out += (self.out_head, text, self.out_middle, noise, self.out_tail)
            text_bytes += count_text_bytes(text) if special else len(text)
            position = rest.end()
        return position, text_bytes

    def pass_many(self, buffer: bytes, position: int, out: list[bytes]) -> tuple[int, int]:
        """Convert all events of a run but its last, or none if any of them is in doubt.

        Returns what `pass_run` returns. It takes the same few steps for any number of events, and a
        third of the time. The proof is that the events made anew from their texts are those that came.
        """
        stop = buffer.rfind(self.tail + self.head, position + 1) + len(self.tail)
        run, event = compile_run(self.head_bytes, len(self.middle), len(self.tail))
        if stop <= position or not run.fullmatch(buffer, position, stop):
            return position, 0
        rows = event.findall(buffer, position, stop)
        inside = (self.tail + self.head).join(map(self.middle.join, rows))
        if self.head + inside + self.tail != buffer[position:stop]:
            return position, 0
        inside = (self.out_tail + self.out_head).join(map(self.out_middle.join, rows))
        out += (self.out_head, inside, self.out_tail)
        texts = b" ".join([text for text, _ in rows])  # the spaces keep halves of surrogates apart
        return stop, count_text_bytes(texts) - len(rows) + 1


@functools.lru_cache(maxsize=256)
def compile_rest(middle_bytes: int, tail_bytes: int) -> re.Pattern[bytes]:
    """Compile what is behind a head: text, middle, obfuscation, tail; the lengths stand for two.

    The group within the text is empty if the text is as long as what it stands for. Events of a
    provider differ in their ids but hardly in these lengths, so few patterns are ever compiled.
    """
    return re.compile(
        rb"([ !#-\[\]-\x7f]*+(%b))(.{%d})(%b)(.{%d})"
        % (STRING, middle_bytes, STRING if tail_bytes else b"", tail_bytes),
        re.DOTALL,
    )


@functools.lru_cache(maxsize=256)
def compile_run(
    head_bytes: int, middle_bytes: int, tail_bytes: int
) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Compile any number of events of these lengths, and one that gives text and obfuscation.

    Without the first, which looks at each byte once, the second would look for an event everywhere.
    """
    noise = STRING if tail_bytes else b""
    sizes = (head_bytes, STRING, middle_bytes, noise, tail_bytes)
    return (
        re.compile(rb"(?:.{%d}%b.{%d}%b.{%d})*+" % sizes, re.DOTALL),
        re.compile(rb".{%d}(%b).{%d}(%b).{%d}" % sizes, re.DOTALL),
    )


def maybe_cut(
    block: bytes, probed: dict[str, Any], key: str, text: str
) -> tuple[bytes, bytes] | None:
    """Cut `block` before and behind the inside of its text, proven by reading it with the probe."""
    for separator in (b'":"', b'": "'):
        needle = b'"' + key.encode() + separator
        at = block.find(needle)
        for _ in range(MAX_HITS):  # each reads the whole block
            if at < 0:
                break
            start = at + len(needle)
            # Another member may have the same key and text, so the place is proven by reading the probe.
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
    # The text must go out exactly once, or a later one could not take its place.
    if not probe or PROBE_BYTES in out_behind:
        return None
    middle, key, rest = behind.partition(_OBFUSCATION)
    out_middle, out_key, out_rest = out_behind.partition(_OBFUSCATION)
    string, out_string = STRING_REST.match(rest), STRING_REST.match(out_rest)
    if not key or not out_key or not string or not out_string:
        pattern = compile_rest(len(behind), 0)
        return Template(head, behind, b"", out_head, out_behind, b"", tool, len(head), pattern)
    # With two such members, a later event could be cut in more than one way.
    if _OBFUSCATION in rest:
        return None
    middle, tail = middle + key, rest[string.end() - 1 :]
    out_middle, out_tail = out_middle + out_key, out_rest[out_string.end() - 1 :]
    pattern = compile_rest(len(middle), len(tail))
    return Template(head, middle, tail, out_head, out_middle, out_tail, tool, len(head), pattern)


AnyTemplate = Template | NumberedTemplate


class PassingStream(EventStream):
    """The part of a passing `Pipeline` that does not depend on what an event says."""

    __slots__ = (
        "_begun",
        "_between_events",
        "_carried",
        "_last",
        "_may_learn",
        "_may_pass_many",
        "_oversized_end",
        "_passed_bytes",
        "_templates",
    )

    def __init__(self, context: ReplyContext, reader: EventReader, last: bytes = b"") -> None:
        super().__init__(context, reader, Framer())
        self._last = last
        """The terminal event."""
        self._begun = False
        self._between_events = False
        """The next byte begins an event."""
        self._may_pass_many = True
        """`pass_many` passed something, or was not tried yet in this read. It looks at all that is
        left, so it must not be tried in vain for each event."""
        self._carried = False
        """Something that is no text passed, such as a tool's name."""
        self._templates: list[AnyTemplate] = []
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

    def finish(self) -> bytes:
        return self._last

    def feed(self, data: bytes) -> bytes:
        # A read is often one whole event. Then it needs no framer, if it fits a template.
        if self._between_events:
            for template in self._templates:
                passed = template.maybe_pass_whole(data)
                if passed is not None:
                    self._note_passed(template, passed[1])
                    return passed[0]
        self._may_pass_many = True
        out = super().feed(data)
        self._between_events = self._framer.is_between_events
        return out

    def _match(self, buffer: bytes, position: int, out: list[bytes]) -> int:
        for template in self._templates:
            # Cheap enough to ask of each template; the rest is not.
            if not buffer.startswith(template.head, position):
                continue
            after, many_bytes = position, 0
            if self._may_pass_many:
                after, many_bytes = template.pass_many(buffer, position, out)
                self._may_pass_many = after > position
            after, run_bytes = template.pass_run(buffer, after, out)
            if after > position:
                self._note_passed(template, many_bytes + run_bytes)
                return after
        return position

    def _note_passed(self, template: AnyTemplate, text_bytes: int) -> None:
        self._may_learn = MAX_FRUITLESS
        self._passed_bytes += text_bytes
        if template.tool is not None:
            self._continue_tool(template.tool)

    def _learn(
        self, head: bytes, behind: bytes, converted: bytes, tool: tuple[int, int] | None = None
    ) -> None:
        """Keep the template of an event cut at its text, given what became of it with the probe."""
        self._keep(maybe_learn(head, behind, converted, tool))

    def _learn_as_is(self, block: bytes, probed: Json, key: str, text: str) -> None:
        """Learn the template of an event that passes unchanged; `probed` has the probe for `text`."""
        if self._may_learn:
            self._may_learn -= 1
            if cut := maybe_cut(block, probed, key, text):
                self._learn(*cut, PROBE_BYTES.join(cut))

    def _keep(self, template: AnyTemplate | None) -> None:
        if template is not None:
            # The newest comes first: the next event is most likely of its kind.
            self._templates = [template, *self._templates[: _MAX_TEMPLATES - 1]]

    def _pass_event(self, event: Event, block: bytes, out: list[bytes]) -> None:
        self._pass_comments(event.comments, out)
        body = self._reader.read_event(event)
        if body is None:
            return
        shown = hide_bill(body, block)
        if shown is not body or not self._is_canonical(event, block, body):
            body, block = shown, self._write_event(shown)
        out.append(self._edit_event(block, body))

    def end(self) -> bytes:
        out = super().end()
        return out + self._end_oversized() if self._framer.mid_event else out

    def _pass_oversized(self, piece: bytes) -> bytes:
        """Pass a piece of an event; its last bytes wait, as they may have the provider's bill."""
        held = self._oversized_end + piece
        out, self._oversized_end = held[:-_END_BYTES], held[-_END_BYTES:]
        return out if self._framer.mid_event else out + self._end_oversized()

    def _end_oversized(self) -> bytes:
        # An oversized event is never parsed; its usage and finish reason stand at its end.
        end, self._oversized_end = self._oversized_end, b""
        found = maybe_find_end_usage(end)
        self._reader.read_end(end, None if found is None else found[2])
        if found is None:
            return end
        begin, stop, usage = found
        shown = hide_bill({"usage": usage}, end)["usage"]
        return end if shown is usage else end[:begin] + dumps_lenient(shown) + end[stop:]

    def _add(self, event: Json, out: list[bytes]) -> None:
        out.append(self._write_event(event))

    _write_event = staticmethod(render_event)

    def _is_canonical(self, event: Event, block: bytes, body: Json) -> bool:
        """Return whether a block can pass as it is, since all SDKs read it."""
        return is_canonical(block, event, body["type"])

    @abstractmethod
    def _edit_event(self, block: bytes, body: Json) -> bytes:
        """Return what goes out for one whole event that fits no template."""

    def _continue_tool(self, tool: tuple[int, int]) -> None:
        """Note that arguments of a call passed by a template."""
