"""JSON at the byte level: edits change one string and no other byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.wire import jsonbytes
from gateway.dialects.wire.jsonbytes import STRING_REST, dumps_lenient, maybe_loads, maybe_splice
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

PIECE_BYTES = 1 << 14


def test_a_text_without_the_string_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """To read it takes time, for each form of the member and each of its places."""
    monkeypatch.setattr(jsonbytes, "maybe_loads", None)
    assert maybe_splice(b'{"m":{"id":"a"}}', "model", "a", "b") is None


def test_nothing_to_change_is_no_change() -> None:
    assert maybe_splice(b"anything", "model", "a", "a") == b"anything"


def test_a_key_given_twice_reads_as_the_new_value() -> None:
    """The last one of duplicate keys counts, so changing the first changes nothing."""
    edited = maybe_splice(b'{"model":"a","model":"a"}', "model", "a", "b")
    assert edited is None or json.loads(edited)["model"] == "b"


names = st.sampled_from(["theirs", "", 'q"uote', "back\\slash", "ünï", "{", "\\", "a/b"])
nested = st.recursive(
    st.fixed_dictionaries({}, optional={"model": names, "id": names, 'x"model': names}) | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner),
    max_leaves=6,
)


@fuzz(300)
@given(
    st.dictionaries(st.sampled_from(["a", "b", 'x"model', "choices"]), nested),
    st.dictionaries(st.sampled_from(["c", "d", "y"]), nested),
    st.tuples(names, names),
    st.sampled_from([(",", ":"), (", ", ": ")]),
    st.booleans(),
)
def test_a_splice_is_the_same_object_with_the_one_string_changed(
    before: dict[str, Any],
    after: dict[str, Any],
    names: tuple[str, str],
    separators: tuple[str, str],
    ascii_only: bool,
) -> None:
    old, new = names
    value = {**before, "model": old, **after}
    written = json.dumps(value, separators=separators, ensure_ascii=ascii_only).encode()
    edited = maybe_splice(written, "model", old, new)
    if edited is not None:
        assert json.loads(edited) == {**value, "model": new}
        assert len(edited) - len(written) in {0, len(dumps_lenient(new)) - len(dumps_lenient(old))}


@fuzz(200)
@given(json_values)
def test_what_was_read_is_written_as_the_same_value(value: Any) -> None:
    written = json.dumps(value).encode()
    assert maybe_loads(dumps_lenient(maybe_loads(written))) == maybe_loads(written)


@each_row(
    ("data", "value"),
    [
        (b'"\xff"', "\ufffd"), (b'"\\ud800"', "\ud800"), (b'"\\ud83d\\ude00"', "\U0001f600"),
        (b" [1] ", [1]), (b"\n\n{}", {}),
    ],
)  # fmt: skip
def test_broken_text_of_an_upstream_is_read(data: bytes, value: object) -> None:
    assert maybe_loads(data) == value
    assert maybe_loads(dumps_lenient(value)) == value


@each_row(
    "data",
    [b"", b"{", b"[DONE]", b'{"a":1}x', b"<html>", b"\xff", b"[" * 100_000, b"1" * 5000 + b"x",
     b'"\xff" ' + b"9" * 5000, b'"\\x41"', b'["a\nb"]'],
)  # fmt: skip
def test_what_is_no_json_is_none(data: bytes) -> None:
    assert maybe_loads(data) is None


@each_row("pair", [b"[]", b"{}"])
def test_200_levels_are_read_and_no_more(pair: bytes) -> None:
    """Brackets within a string are none."""
    begin, end = (b"[", b"]") if pair == b"[]" else (b'{"a":', b"}")
    deep = begin * 199 + b'{"a":"[["}' + end * 199
    assert maybe_loads(deep)
    assert maybe_loads(begin + deep + end) is None


def test_levels_are_counted_across_the_pieces_of_a_long_text() -> None:
    begin = b"[" * 100 + b'["' + b"a" * PIECE_BYTES + b'",'
    assert maybe_loads(begin + b"[" * 99 + b"]" * 200)
    assert maybe_loads(begin + b"[" * 100 + b"]" * 201) is None


@each_row("depth", [200, 300, 900, 1000, 1020])
def test_depth_is_written_as_it_was_read_or_refused(depth: int) -> None:
    """orjson reads 1,024 levels and writes 254."""
    deep = b"[" * depth + b"]" * depth
    assert dumps_lenient(maybe_loads(deep)) == (deep if depth == 200 else b"null")


@fuzz(300)
@given(st.text(max_size=20), st.binary(max_size=10), st.booleans())
def test_string_rest_ends_at_the_closing_quote(
    inside: str, behind: bytes, ascii_only: bool
) -> None:
    try:
        written = json.dumps(inside, ensure_ascii=ascii_only).encode()[1:]
    except UnicodeEncodeError:
        written = json.dumps(inside).encode()[1:]
    match = STRING_REST.match(written + behind)
    assert match is not None
    assert match.end() == len(written)


@each_row("cut", [b"abc", b"abc\\", b'abc\\"', b'a\nb"', b'a\x00b"', b'\\\n"', b""])
def test_string_rest_finds_none_in_what_is_cut_or_no_json(cut: bytes) -> None:
    assert STRING_REST.match(cut) is None


@each_row("inside", [rb"\x41", rb"\u12", rb"\uZZZZ", rb"\'", rb"\8"])
def test_string_rest_refuses_escapes_that_are_no_json(inside: bytes) -> None:
    """Otherwise invalid JSON in a content delta would pass by the hot path unnoticed."""
    assert STRING_REST.match(inside + b'"') is None
    assert maybe_loads(b'"' + inside + b'"') is None
