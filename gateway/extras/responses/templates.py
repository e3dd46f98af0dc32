"""Templates of events with a `sequence_number`, which pass unchanged, including their numbers."""

from __future__ import annotations

import re
from typing import Final

import orjson

from gateway.dialects.wire.jsonbytes import STRING, maybe_loads
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.templates import NUMBER, PROBE, Hole, Template, make_template

_FIND: Final[dict[Hole, re.Pattern[bytes]]] = {
    "text": re.compile(rb'"delta": ?"(' + STRING + rb')"'),
    "number": re.compile(rb'"sequence_number": ?(' + NUMBER + rb")(?=[,}])"),
    "noise": re.compile(rb'"obfuscation": ?"(' + STRING + rb')"'),
}
"""A match is always a member: inside a string its quotes would be escaped."""
_PROBES: Final[dict[Hole, tuple[str, object]]] = {
    "text": ("delta", PROBE),
    "number": ("sequence_number", 271828182845904523),
    "noise": ("obfuscation", "\x00noise\x00"),
}
"""The key of each hole, and the value in it while an event is learned."""
_NUMBERS: Final = re.compile(rb'"sequence_number": ?([0-9]+)')


def maybe_learn_numbered(block: bytes, body: Json) -> Template | None:
    """Make the template of an event (`body`) that passes unchanged, including its number.

    None if its text cannot be located.
    """
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
    probes = [_PROBES[hole] for hole in holes]
    probed = head + b"".join(
        orjson.dumps(probe).strip(b'"') + rest
        for (_, probe), rest in zip(probes, around, strict=True)
    )
    if maybe_loads(probed[head.find(b"{") :].rstrip()) != body | dict(probes):
        return None
    return make_template(head, holes, around)


def read_number(template: Template) -> int:
    """Read the last sequence number that passed; -1 if none did."""
    numbers = _NUMBERS.findall(template.last)
    return int(numbers[-1]) if numbers else -1
