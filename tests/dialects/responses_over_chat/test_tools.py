"""Responses tools as chat functions, and the text of custom ones back."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.dialects.responses.over_chat_tools import (
    MAX_NAME_CHARS,
    MAX_OPENING_CHARS,
    InputDecoder,
    ToolName,
    flatten_name,
    read_input,
    read_tool_names,
)
from tests.dialects.chat.kit import Json
from tests.dialects.responses_over_chat.kit import PATCH, SPACE, TOOL, write
from tests.support.fuzz import fuzz
from tests.support.rows import each_row

SEARCH: Json = {"type": "web_search"}


def names_of(written: Json) -> list[str]:
    return [tool["function"]["name"] for tool in written["tools"]]


def test_long_names_are_cut_and_told_apart() -> None:
    long = "n" * 100
    first, second = flatten_name(long, "a"), flatten_name(long, "b")
    assert len(first) == len(second) == MAX_NAME_CHARS
    assert first != second
    assert flatten_name("", "n" * MAX_NAME_CHARS) == "n" * MAX_NAME_CHARS
    space = {**SPACE, "name": long}
    (name, _) = names_of(write(tools=[space]))
    assert read_tool_names({"tools": [space]})[name] == ToolName("f", long)


def test_names_lead_back_to_the_callers_tools() -> None:
    assert read_tool_names({"tools": [TOOL, PATCH, SPACE, SEARCH], "input": "hi"}) == {
        "f": ToolName("f"),
        "patch": ToolName("patch", is_custom=True),
        "ns__f": ToolName("f", "ns"),
        "ns__c": ToolName("c", "ns", is_custom=True),
    }
    assert read_tool_names({}) == {}


def decode(*fragments: str) -> str:
    decoder = InputDecoder()
    return "".join(map(decoder.feed, fragments)) + decoder.close()


@each_row("ascii_only", [True, False])
@each_row("text", ["", 'a "b"\n\\u00e9 \\', "é\U0001f600\u2028", "\ud83d!", "\ud83d"])
def test_every_split_point_gives_the_same_text(text: str, ascii_only: bool) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    for first in range(len(arguments)):
        for second in range(first, len(arguments)):
            pieces = (arguments[:first], arguments[first:second], arguments[second:])
            assert decode(*pieces) == text


@fuzz(200)
@given(st.text(max_size=30), st.booleans(), st.integers(1, 5))
def test_any_text_comes_back(text: str, ascii_only: bool, size: int) -> None:
    arguments = json.dumps({"input": text}, ensure_ascii=ascii_only)
    pieces = [arguments[at : at + size] for at in range(0, len(arguments), size)]
    assert decode(*pieces) == read_input(arguments) == text


def test_text_leaves_as_it_comes() -> None:
    decoder = InputDecoder()
    assert decoder.feed(' {"input" : "a') == "a"
    assert decoder.feed("b\\") == "b"
    assert decoder.feed("nc") == "\nc"
    assert decoder.feed("\\ud83d") == ""
    assert decoder.feed('\\ude00"') == "\U0001f600"
    assert decoder.feed(" }") == ""
    assert decoder.close() == ""


@each_row(
    ("arguments", "text"),
    [
        ("plain words", "plain words"),
        ('"a\\nb"', "a\nb"),
        ('{"other":"a"}', '{"other":"a"}'),
        ('{"other":1,"input":"a"}', "a"),
        ('{"input":{"a":1}}', '{"input":{"a":1}}'),
        ('{"input":"cut \\u00', "cut \\u00"),
        ('{"input":"cut', "cut"),
        ('{"input":"line\nfeed"}', "line\nfeed"),
        ('{"input":"\\x \\uZZ"}', "\\x \\uZZ"),
        ("", ""),
        (" " * MAX_OPENING_CHARS + '{"input":"a"}', "a"),
    ],
)
def test_arguments_of_any_shape_lose_nothing(arguments: str, text: str) -> None:
    assert read_input(arguments) == decode(*arguments) == text


@pytest.mark.slow
def test_a_long_text_in_short_pieces_takes_linear_time() -> None:
    for opening in ('{"input":"', '{"other":"'):
        decoder = InputDecoder()
        begun = time.process_time()
        decoder.feed(opening)
        for _ in range(200_000):
            decoder.feed("abcd")
        decoder.close()
        assert time.process_time() - begun < 10
