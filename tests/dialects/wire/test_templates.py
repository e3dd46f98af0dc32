"""Templates of content deltas: proven when learned, and refused in any doubt."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.chat.stream import maybe_probe, read_tool
from gateway.dialects.wire.jsonbytes import count_text_bytes
from gateway.dialects.wire.templates import PROBE_BYTES, Template, maybe_cut, maybe_learn
from tests.dialects.chat.kit import choice, chunk, dump, event, text
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

MAX_HITS = 4


def call(arguments: str = "{", **fields: Any) -> dict[str, Any]:
    return {"index": 0, "function": {"arguments": arguments}} | fields


PROBED = [
    (chunk(text("a")), "content", "a"),
    (chunk(choice({"reasoning_content": "a", "content": None})), "reasoning_content", "a"),
    (chunk(choice({"reasoning": "a", "content": ""})), "reasoning", "a"),
    (chunk(choice({"refusal": "a"})), "refusal", "a"),
    (chunk(choice({"content": "a", "tool_calls": []})), "content", "a"),
    (chunk(choice({"tool_calls": [call("{")]})), "arguments", "{"),
    (chunk(choice({"content": None, "tool_calls": [call("x")]})), "arguments", "x"),
    (chunk(text('quo"te\\ünï\n')), "content", 'quo"te\\ünï\n'),
]


@each_row(("value", "key", "said"), PROBED)
def test_the_one_text_is_found(value: dict[str, Any], key: str, said: str) -> None:
    before = dump(value)
    probe = maybe_probe(value)
    assert probe is not None
    probed, found, found_said = probe
    assert (found, found_said) == (key, said)
    assert dump(value) == before
    assert dump(probed) == before.replace(
        json.dumps(said, ensure_ascii=False).encode(), b'"%s"' % PROBE_BYTES
    )


def cut(block: bytes) -> tuple[bytes, bytes] | None:
    probe = maybe_probe(json.loads(block[6:]))
    assert probe is not None
    return maybe_cut(block, *probe)


@each_row("value", [value for value, _, _ in PROBED])
@each_row("separators", [(",", ":"), (", ", ": ")])
@each_row("ascii_only", [False, True])
def test_a_block_is_cut_around_its_text(
    value: dict[str, Any], separators: tuple[str, str], *, ascii_only: bool
) -> None:
    written = json.dumps(value, separators=separators, ensure_ascii=ascii_only)
    halves = cut(b"data: " + written.encode() + b"\n\n")
    assert halves is not None
    head, behind = halves
    probe = maybe_probe(value)
    assert probe is not None
    assert json.loads((head + PROBE_BYTES + behind)[6:]) == probe[0]


def test_the_cut_is_at_the_text_and_not_at_its_double() -> None:
    """The same key with the same value also stands before and after the text."""
    value = {"content": "a", **chunk(text("a"), x={"content": "a"})}
    halves = cut(event(value))
    assert halves is not None
    assert halves[0].count(b'"content":"') == 2
    assert halves[1].count(b'"content":"') == 1


def test_few_doubles_are_tried() -> None:
    """Each reads the whole event, so that many would take the square of the time."""
    doubles = [{"content": "a"}] * (MAX_HITS - 1)
    assert cut(event({"x": doubles, **chunk(text("a"))})) is not None
    assert cut(event({"x": [*doubles, {"content": "a"}], **chunk(text("a"))})) is None


def test_an_event_that_cannot_be_proven_is_not_cut() -> None:
    """With a duplicate key, another text in the first place changes nothing that is read."""
    block = event(chunk(text("a"))).replace(b'"content":"a"', b'"content" :"a"')
    assert cut(block) is None


OPENAI = event(chunk(text("a"), usage=None, obfuscation="xyz"))


def learn(block: bytes, converted: bytes | None = None) -> Template | None:
    halves = cut(block)
    assert halves is not None
    head, behind = halves
    same = head + PROBE_BYTES + behind
    return maybe_learn(head, behind, same if converted is None else converted, None)


INSIDES = (
    b"b", b"", "\u00e9".encode(), rb"\"", rb"\n", rb"\\", rb"\ud83d", rb"\ude00", b"{[" * 200,
    b"\xff",
)  # fmt: skip
"""Insides of strings. Two are the halves of a surrogate pair, which count apart from each other."""


@fuzz(200)
@given(st.lists(st.sampled_from(INSIDES), min_size=1, max_size=9), st.booleans(), st.booleans())
def test_a_run_passes_at_once_as_it_does_one_by_one(
    said: list[bytes], obfuscation: bool, renamed: bool
) -> None:
    block = event(chunk(text("a"), **({"obfuscation": "xyz"} if obfuscation else {})))
    same = block.replace(b'"a"', b'"' + PROBE_BYTES + b'"')
    template = learn(block, same.replace(b"theirs", b"ours") if renamed else same)
    assert template is not None
    run = b"".join(block.replace(b'"a"', b'"' + inside + b'"') for inside in said)
    ways: list[tuple[bytes, int, int]] = []
    for at_once in (False, True):
        out: list[bytes] = []
        after, many = template.pass_many(b"##" + run, 2, out) if at_once else (2, 0)
        assert (after > 2) == (at_once and len(said) > 1)
        after, rest = template.pass_run(b"##" + run, after, out)
        ways.append((b"".join(out), after, many + rest))
    assert ways[0] == ways[1] == (run.replace(b"theirs", b"ours") if renamed else run, *ways[0][1:])
    assert ways[0][1:] == (len(run) + 2, sum(map(count_text_bytes, said)))
    whole = template.maybe_pass_whole(run)
    assert whole == ((ways[0][0], ways[0][2]) if len(said) == 1 else None)


@each_row(
    "other",
    [
        pytest.param(lambda one: one.replace(b'"a"', b'"\x01"'), id="a raw control character"),
        pytest.param(lambda one: one.replace(b'"a"', b'"\\x"'), id="no escape"),
        pytest.param(lambda one: one.replace(b'"index":0', b'"index":1'), id="another head"),
        pytest.param(lambda one: one.replace(b"null", b"true"), id="another middle"),
        pytest.param(lambda one: one.replace(b"xyz", b'x"z'), id="a quote"),
        pytest.param(lambda one: one[:-3] + b"]\n\n", id="another tail"),
    ],
)
def test_nothing_passes_at_once_where_one_event_is_of_another_shape(
    other: Callable[[bytes], bytes],
) -> None:
    block = event(chunk(text("a"), obfuscation="xyz"))
    template = learn(block)
    assert template is not None
    odd = other(block)
    assert odd != block
    out: list[bytes] = []
    assert template.pass_many(block + odd + block * 2, 0, out) == (0, 0)
    assert template.pass_run(block + odd + block * 2, 0, out) == (len(block), 1)
    assert template.maybe_pass_whole(odd) is None
    assert b"".join(out) == block


def test_a_long_event_of_another_shape_costs_its_length() -> None:
    block = event(chunk(text("a"), obfuscation="xyz"))
    template = learn(block)
    assert template is not None

    def measure(size: int) -> float:
        run = block + b"data: " + b"a" * size + b'"}\n\n' + block
        seconds = []
        for _ in range(5):
            begun = time.process_time()
            assert template.pass_many(run, 0, []) == (0, 0)
            seconds.append(time.process_time() - begun)
        return min(seconds)

    assert measure(64_000) < 30 * measure(8_000) + 0.02


def test_the_call_that_arguments_belong_to_is_read() -> None:
    value = chunk(choice({"tool_calls": [call("x", index=3)]}, index=2))
    assert read_tool(value) == (2, 3)
    assert read_tool(chunk(text("a"))) is None


@each_row(
    ("block", "converted", "holes", "form"),
    [
        (event(chunk(text("a"))), None, ["a"], b""),
        (event(chunk(text("a"))), b"5%% " + PROBE_BYTES + b"!", ["a"], b"5%%%% %b!"),
        (OPENAI, None, ["a", "xyz"], b""),
        # Obfuscation that is not passed on is no hole.
        (OPENAI, PROBE_BYTES + b" without", ["a"], b"%b without"),
    ],
)
def test_a_template_is_the_event_around_its_holes(
    block: bytes, converted: bytes | None, holes: list[str], form: bytes
) -> None:
    template = learn(block, converted)
    assert template is not None
    rest = b"".join(hole.encode() + one for hole, one in zip(holes, template.around, strict=True))
    assert (template.head + rest, template.form) == (block, form)
    assert template.maybe_pass_whole(block) == (
        form % tuple(hole.encode() for hole in holes) if form else block,
        1,
    )


def test_two_obfuscations_teach_nothing() -> None:
    block = event(chunk(text("a"), obfuscation="x", y={"obfuscation": "z"}))
    assert learn(block) is None


@each_row("converted", [b"nothing", PROBE_BYTES * 2])
def test_a_conversion_without_the_one_text_teaches_nothing(converted: bytes) -> None:
    assert learn(event(chunk(text("a"))), converted) is None


@fuzz(200)
@given(st.text(max_size=20), st.booleans())
def test_text_bytes_are_the_utf8_bytes_of_what_is_read(said: str, ascii_only: bool) -> None:
    inside = json.dumps(said, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")[1:-1]
    assert count_text_bytes(inside) == len(said.encode("utf-8", "surrogatepass"))
