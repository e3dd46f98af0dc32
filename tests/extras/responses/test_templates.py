"""Templates of numbered events."""

from __future__ import annotations

import json
from itertools import permutations
from typing import Any, Final

from gateway.dialects.wire.templates import Template
from gateway.extras.responses.templates import maybe_learn_numbered, read_number
from tests.support.rows import each_row

FIELDS: Final[dict[str, Any]] = {"delta": "Hi", "sequence_number": 7, "obfuscation": "abc"}


def block(**fields: Any) -> bytes:
    return write(fields, (",", ":"))


def write(fields: dict[str, Any], separators: tuple[str, str]) -> bytes:
    body = json.dumps({"type": "x.delta", **fields}, separators=separators, ensure_ascii=False)
    return b"event: x.delta\ndata: %b\n\n" % body.encode("utf-8", "surrogatepass")


def learn(data: bytes) -> Template:
    template = maybe_learn_numbered(data, json.loads(data.partition(b"data: ")[2]))
    assert template is not None
    return template


@each_row("separators", [(",", ":"), (", ", ": ")])
@each_row("order", [*permutations([*FIELDS, "item_id"])])
def test_events_pass_whatever_the_order_of_their_holes(
    order: tuple[str, ...], separators: tuple[str, str]
) -> None:
    fields = {**FIELDS, "item_id": "msg_1"}

    def make(text: str, number: int, noise: str) -> bytes:
        told = {**fields, "delta": text, "sequence_number": number, "obfuscation": noise}
        return write({key: told[key] for key in order}, separators)

    template = learn(make("Hi", 7, "abc"))
    events = [make(f'ü"{"x" * at}', 9 + at, "y" * at) for at in range(5)]
    sizes = [3 + at for at in range(5)]
    for event, size in zip(events, sizes, strict=True):
        assert template.maybe_pass_whole(event) == (event, size)
    data, out = b"".join(events), list[bytes]()
    assert template.pass_run(b"??" + data, 2, out) == (len(data) + 2, sum(sizes))
    assert (b"".join(out), read_number(template)) == (data, 13)
    out.clear()
    end, text_bytes = template.pass_many(data, 0, out)
    assert (end, text_bytes) == (len(data) - len(events[-1]), sum(sizes[:-1]))
    assert (b"".join(out), read_number(template)) == (data[:end], 12)


@each_row("missing", ["sequence_number", "obfuscation"])
def test_a_number_and_padding_may_be_missing(missing: str) -> None:
    fields = {key: value for key, value in FIELDS.items() if key != missing}
    template, event = learn(block(**fields)), block(**{**fields, "delta": "other"})
    assert template.maybe_pass_whole(event) == (event, 5)
    assert read_number(template) == (-1 if missing == "sequence_number" else 7)


@each_row(
    "other",
    [
        block(**FIELDS, more=1),
        block(**{**FIELDS, "sequence_number": "7"}),
        block(**{**FIELDS, "sequence_number": -7}),
        block(**{**FIELDS, "sequence_number": 7.5}),
        block(**{**FIELDS, "delta": None}),
        block(**FIELDS).replace(b":7,", b":07,"),
        block(**FIELDS).replace(b"x.delta", b"y.delta"),
        block(**FIELDS).replace(b"\n\n", b"\n"),
        block(**FIELDS).replace(b"Hi", b"\\x"),
        block(**FIELDS).replace(b"Hi", b"a\nb"),
        block(**FIELDS)[:-1],
    ],
)
def test_events_of_another_shape_do_not_pass(other: bytes) -> None:
    template = learn(block(**FIELDS, item_id="m"))
    template = learn(block(**FIELDS)) if b"item_id" not in other else template
    assert template.maybe_pass_whole(other) is None
    out: list[bytes] = []
    assert template.pass_run(other + block(**FIELDS), 0, out)[0] == 0
    run = block(**FIELDS) + other + block(**FIELDS)
    end, _ = template.pass_many(run + block(**FIELDS), 0, out)
    assert end in (0, len(block(**FIELDS)))


def test_a_last_event_without_its_number_does_not_pass() -> None:
    """Where no event matches any more all holes count as empty, and so are those of this one."""
    empty = block(**{**FIELDS, "delta": "", "obfuscation": ""})
    broken = empty.replace(b'"sequence_number":7', b'"sequence_number":')
    assert broken != empty
    template, out = learn(block(**FIELDS)), list[bytes]()
    assert template.pass_many(block(**FIELDS) * 3 + broken + block(**FIELDS), 0, out) == (0, 0)
    assert template.pass_many(block(**FIELDS) * 3 + empty + block(**FIELDS), 0, out)[0] > 0


@each_row(
    "taught",
    [
        block(sequence_number=7),
        block(delta=5),
        block(delta="a", inner={"delta": "b"}),
        block(inner={"delta": "b"}),
        block(delta="a", inner={"sequence_number": 5}),
        block(delta="a").replace(b'{"type"', b'{"delta":"b","type"'),
    ],
)
def test_what_cannot_be_proven_is_not_learned(taught: bytes) -> None:
    body = json.loads(taught.partition(b"data: ")[2])
    assert maybe_learn_numbered(taught, body) is None


def test_members_within_the_text_are_text() -> None:
    said = json.dumps({"delta": "x", "sequence_number": 1})
    template = learn(block(**{**FIELDS, "delta": said}))
    event = block(**{**FIELDS, "delta": said * 2, "sequence_number": 11})
    assert template.maybe_pass_whole(event) == (event, 2 * len(said))
    assert read_number(template) == 11
