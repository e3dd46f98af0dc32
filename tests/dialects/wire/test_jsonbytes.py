"""JSON at the byte level: edits change one string and no other byte."""

from __future__ import annotations

import json
import time
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import BadRequest, UndeliverableReply
from gateway.dialects.wire import jsonbytes
from gateway.dialects.wire.jsonbytes import (
    MAX_ELEMENTS,
    MAX_ESCAPES,
    MAX_WIDE_BYTES,
    STRING_REST,
    bound_elements,
    count_elements,
    dumps_lenient,
    has_more_elements,
    limit_elements,
    maybe_loads,
    maybe_splice,
    refuse_elements,
    refuse_reply,
    spend_elements,
)
from gateway.dialects.wire.records import Json, Target
from tests.dialects.chat.kit import make_context
from tests.support.formats import CALLERS, EXCHANGES
from tests.support.fuzz import fuzz, json_values
from tests.support.rows import each_row

PIECE_BYTES, STEP_BYTES = 1 << 14, 1 << 16


def test_marks_are_commas_and_opening_brackets() -> None:
    assert bound_elements(b'{"a":[1,2,{}]} ,') == 3 * 6 + 1


@pytest.mark.parametrize("most", [0, 1, 2, 7])
@pytest.mark.parametrize("text", ["\\" * 9, '"' * 9, '\\"', 'a\\" , [', "\\"])
def test_a_string_ends_where_it_ends_whatever_its_escapes(
    text: str, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The steps in which a long string is read may end within an escape."""
    data = json.dumps([text, text]).encode()  # two strings, a bracket and a comma
    for step in (2, 3, 4, 1 << 18):
        monkeypatch.setattr(jsonbytes, "STEP_BYTES", step)
        for piece in (*range(1, len(data)), 1 << 14):
            monkeypatch.setattr(jsonbytes, "PIECE_BYTES", piece)
            assert has_more_elements(data, most) == (most < 4)


@each_row("value", [{"a": "b"}, ["a", "b"], [], 1, {"a": {"b": {"c": "d,e"}}}, "a"])
def test_the_bound_is_no_less_than_the_number(value: object) -> None:
    data = json.dumps(value).encode()
    assert count_elements(data, 1000) <= bound_elements(data)


def test_all_that_is_parsed_in_a_context_has_one_budget() -> None:
    """Many small texts count like a large one; what begins no object and no array costs nothing."""
    text, parsed = json.dumps([0] * 100).encode(), list[object]()

    def parse_all() -> None:
        with limit_elements(1000, refuse_elements):
            for _ in range(100):
                assert maybe_loads(b"," * 5000) is None
                parsed.append(maybe_loads(text))

    with pytest.raises(BadRequest, match="counting those in strings"):
        parse_all()
    assert len(parsed) == 10
    maybe_loads(text)


def test_what_is_no_json_counts_before_that_is_seen() -> None:
    with pytest.raises(BadRequest), limit_elements(1000, refuse_elements):
        maybe_loads(b" [" + b"{}," * 1000)


def test_without_a_budget_one_text_has_a_limit() -> None:
    """Such as an event of a stream, or the arguments that came in many."""
    spend_elements(b"[" + b"0," * (MAX_ELEMENTS - 2) + b"0]")
    with pytest.raises(UndeliverableReply):
        maybe_loads(b"[" + b"0," * MAX_ELEMENTS + b"0]")


def test_a_reply_of_escapes_is_not_parsed() -> None:
    exchange = EXCHANGES["messages"]["chat"]
    body = b'{"a":"' + rb"\n" * (MAX_ESCAPES + 1) + b'"}'
    for read in (exchange.read_reply, exchange.replay_reply):
        failure = read(body, make_context()).failure
        assert type(failure) is UndeliverableReply
        assert "too many JSON values or escapes" in failure.message
    with pytest.raises(UndeliverableReply):
        maybe_loads(b'"' + rb"\n" * (MAX_ESCAPES + 1) + b'"')
    assert maybe_loads(b'"' + rb"\n" * MAX_ESCAPES + b'"') == "\n" * MAX_ESCAPES
    with pytest.raises(UndeliverableReply):
        maybe_loads(b'"' + "\u8bed".encode() * (MAX_WIDE_BYTES // 3 + 1) + b'"')
    with pytest.raises(BadRequest), limit_elements(9, refuse_elements):
        maybe_loads(b" " * STEP_BYTES + b"[" + b"0," * 9 + b"0]")


DENSE: Final = "[" + "{}," * MAX_ELEMENTS


def make_call(arguments: str) -> Json:
    return {"id": "c", "type": "function", "function": {"name": "f", "arguments": arguments}}


@each_row("caller", CALLERS.keys() & {"chat", "responses"})
@each_row("is_whole", [False, True])
def test_the_arguments_of_a_callers_calls_are_counted(caller: str, *, is_whole: bool) -> None:
    """28 MiB of tool-call arguments took 1 GB to parse; invalid JSON was not counted against the budget."""
    arguments = DENSE + "{}]" if is_whole else DENSE
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": arguments}
    bodies: dict[str, Json] = {
        "chat": {"messages": [{"role": "assistant", "tool_calls": [make_call(arguments)]}]},
        "responses": {"input": [call]},
    }
    request = CALLERS[caller].parse_request(json.dumps({"model": "m", **bodies[caller]}).encode())
    with pytest.raises(BadRequest, match="counting those in strings"):
        EXCHANGES[caller]["messages"].write_request(request, Target("up"))


def test_the_arguments_of_a_providers_calls_are_counted() -> None:
    message = {"role": "assistant", "content": None, "tool_calls": [make_call(DENSE + "{}]")]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    reply = json.dumps({"object": "chat.completion", "model": "m", "choices": [choice]}).encode()
    exchange = EXCHANGES["messages"]["chat"]
    with limit_elements(MAX_ELEMENTS, refuse_reply):
        made = exchange.read_reply(reply, make_context())
    assert type(made.failure) is UndeliverableReply
    assert made.metered.tokens.output > 0, "it was made, and is charged"


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


@each_row("rest", [b'"]', b"", b"a"])
@each_row("pieces", [1, 200])
def test_escaped_quotes_take_no_more_time_than_others(rest: bytes, pieces: int) -> None:
    """At each of them a search for strings would begin anew: a second for 16 KiB."""
    long = b'\\"' * PIECE_BYTES
    data = b"[" + (b'"' + long + b'",') * (pieces - 1) + b'"' + long + rest
    began = time.thread_time()
    assert count_elements(data, len(data)) == 2 * pieces
    assert time.thread_time() - began < pieces / 10


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
