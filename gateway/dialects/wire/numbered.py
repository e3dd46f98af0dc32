"""Templates of events that pass unchanged, though each carries a number of its own.

An event of OpenAI's Responses API has up to three holes, in any order: the text, `sequence_number`,
and a random `obfuscation`. What goes out is what came, so the template only has to know that nothing
else differs. Like `passing.Template` it is proven when it is learned: with probes in all holes, the
event reads as the same object with those values.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any, Final, Literal

import orjson

from gateway.dialects.records import Json
from gateway.dialects.wire.jsonbytes import STRING, count_text_bytes, maybe_loads

_Hole = Literal["text", "number", "noise"]
# Atomic and of at most 18 digits: neither half a number nor one beyond 64 bits may match.
_NUMBER: Final = rb"(?>0|[1-9][0-9]{0,17})(?![0-9])"
_FIND: Final[dict[_Hole, re.Pattern[bytes]]] = {
    "text": re.compile(rb'"delta": ?"(' + STRING + rb')"'),
    "number": re.compile(rb'"sequence_number": ?(' + _NUMBER + rb")(?=[,}])"),
    "noise": re.compile(rb'"obfuscation": ?"(' + STRING + rb')"'),
}
"""A match is always a member: inside a string its quotes would be escaped."""
_KEYS: Final[dict[_Hole, str]] = {
    "text": "delta",
    "number": "sequence_number",
    "noise": "obfuscation",
}
_PROBES: Final[dict[_Hole, Any]] = {
    "text": "\x00probe\x00",
    "number": 271828182845904523,
    "noise": "\x00noise\x00",
}
_NUMBERS: Final = re.compile(rb'"sequence_number": ?([0-9]+)')


@dataclass(frozen=True, slots=True)
class _Patterns:
    """Patterns of the bytes behind a head, for an order of holes and the lengths around them."""

    rest: re.Pattern[bytes]
    """One event from behind its head: what is around the holes, and the text (see `passing`)."""
    run: re.Pattern[bytes]
    """Any number of events that are equal around their holes, and what that is."""
    text: re.Pattern[bytes]
    """One event: its text."""


@functools.lru_cache(maxsize=256)
def _compile(holes: tuple[_Hole, ...], sizes: tuple[int, ...]) -> _Patterns:
    """Compile events of these holes; `sizes` are the lengths of the head and of what follows each hole."""
    plain = {"text": STRING, "number": _NUMBER, "noise": STRING}
    rest, first, again, text = b"", b"(.{%d})" % sizes[0], rb"\1", b".{%d}" % sizes[0]
    for group, (hole, size) in enumerate(zip(holes, sizes[1:], strict=True), 2):
        kept = rb"([ !#-\[\]-\x7f]*+(%b))" % STRING if hole == "text" else plain[hole]
        rest += b"%b(.{%d})" % (kept, size)
        # The first event is captured around its holes, and backreferences hold all others to it.
        first += b"%b(.{%d})" % (plain[hole], size)
        again += rb"%b\%d" % (plain[hole], group)
        text += (b"(%b).{%d}" if hole == "text" else b"%b.{%d}") % (plain[hole], size)
    made = (rest, b"%b(?:%b)*+" % (first, again), text)
    return _Patterns(*(re.compile(one, re.DOTALL) for one in made))


@dataclass(slots=True)
class NumberedTemplate:
    """An event around its holes: `head` HOLE `around[0]` HOLE `around[1]` … ."""

    head: bytes
    head_bytes: int
    """The length of `head`."""
    around: tuple[bytes, ...]
    """The bytes behind each hole."""
    at_text: int
    """The number of items of `around` that stand before the text."""
    patterns: _Patterns
    last: bytes = b""
    """The bytes that passed last: their numbers are read only when someone asks for them."""

    tool: None = None

    def maybe_pass_whole(self, data: bytes) -> tuple[bytes, int] | None:
        """See `passing.Template`."""
        if not data.startswith(self.head):
            return None
        rest = self.patterns.rest.fullmatch(data, self.head_bytes)
        if rest is None:
            return None
        at, found = self.at_text, rest.groups()
        if found[:at] + found[at + 2 :] != self.around:
            return None
        self.last = data
        return data, count_text_bytes(found[at]) if found[at + 1] else len(found[at])

    def pass_run(self, buffer: bytes, position: int, out: list[bytes]) -> tuple[int, int]:
        """See `passing.Template`."""
        at, start, text_bytes = self.at_text, position, 0
        while buffer.startswith(self.head, position):
            rest = self.patterns.rest.match(buffer, position + self.head_bytes)
            if rest is None:
                break
            found = rest.groups()
            if found[:at] + found[at + 2 :] != self.around:
                break
            text_bytes += count_text_bytes(found[at]) if found[at + 1] else len(found[at])
            position = rest.end()
        if position > start:
            self.last = buffer[start:position]
            out.append(self.last)
        return position, text_bytes

    def pass_many(self, buffer: bytes, position: int, out: list[bytes]) -> tuple[int, int]:
        """See `passing.Template`. The proof is that all events are equal around their holes."""
        tail = self.around[-1]
        stop = buffer.rfind(tail + self.head, position + 1) + len(tail)
        run = self.patterns.run.fullmatch(buffer, position, stop) if stop > position else None
        if run is None or run.groups() != (self.head, *self.around):
            return position, 0
        texts = self.patterns.text.findall(buffer, position, stop)
        self.last = buffer[position:stop]
        out.append(self.last)
        joined = b" ".join(texts)  # the spaces keep halves of surrogates apart
        return stop, count_text_bytes(joined) - len(texts) + 1

    def read_number(self) -> int:
        """Read the last number that passed; -1 where none did."""
        numbers = _NUMBERS.findall(self.last)
        return int(numbers[-1]) if numbers else -1


def maybe_learn_numbered(block: bytes, body: Json) -> NumberedTemplate | None:
    """Make the template of an event that is `body`; None if its text cannot be told from the rest."""
    found = []
    for hole, pattern in _FIND.items():
        hits = [*pattern.finditer(block)]
        # With two members of a name, which one the event means depends on the nesting.
        if len(hits) > 1 or (hole == "text" and not hits):
            return None
        found += [(*hit.span(1), hole) for hit in hits]
    found.sort()
    holes = tuple(hole for _, _, hole in found)
    ends = [*(start for start, _, _ in found[1:]), len(block)]
    head = block[: found[0][0]]
    around = tuple(block[end:after] for (_, end, _), after in zip(found, ends, strict=True))
    probed = head + b"".join(
        orjson.dumps(_PROBES[hole]).strip(b'"') + rest
        for hole, rest in zip(holes, around, strict=True)
    )
    wanted = body | {_KEYS[hole]: _PROBES[hole] for hole in holes}
    if maybe_loads(probed[head.find(b"{") :].rstrip()) != wanted:
        return None
    patterns = _compile(holes, (len(head), *map(len, around)))
    return NumberedTemplate(head, len(head), around, holes.index("text"), patterns)
