"""Charges for reported and delivered tokens, and estimates from bytes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from gateway.money import Tokens
from gateway.prices import Asked, Terms
from gateway.usage import (
    Expected,
    Metered,
    Reported,
    UsageLimits,
    are_counts,
    count_text,
    estimate_file,
    estimate_tokens,
    meter,
    read_count,
)
from tests.support.rows import each_row


@each_row(("text_bytes", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (8, 2)])
def test_four_bytes_are_a_token_rounded_up(text_bytes: int, tokens: int) -> None:
    assert estimate_tokens(text_bytes) == tokens


@each_row(
    ("kind", "base64_chars", "tokens"),
    [
        ("picture", 0, 1600),
        ("picture", 10**7, 1600),
        ("audio", 4_000_000, 10_000),
        ("audio", 4, 1500),
        ("document", 4_000_000, 500_000),
        ("document", 4, 1500),
        ("document", 0, 20_000),
    ],
)
def test_files_are_estimated_by_kind_and_size(kind: str, base64_chars: int, tokens: int) -> None:
    assert estimate_file(kind, base64_chars) == tokens


REPORTED = Tokens(9, 2, 1, 5)
EXPECTED = Expected(7, UsageLimits(10**6, 10**6, 50))
Calls = dict[str, int]
ONE, TWO = {"web_search": 1}, {"web_search": 3, "file_search": 2}


@each_row(
    ("reported", "text_bytes", "complete", "tokens", "estimated"),
    [
        (None, 0, False, Tokens(7), True),
        (None, 9, True, Tokens(7, output=3), True),
        (REPORTED, 0, False, REPORTED, False),
        (REPORTED, 20, False, REPORTED, False),
        (REPORTED, 21, False, Tokens(9, 2, 1, 6), True),
        (REPORTED, 21, True, REPORTED, False),
        # A half that cannot be is estimated, and the other one stays: zeros beside a reply are
        # no count, and there is a limit to each.
        (Tokens(), 400, True, Tokens(7, output=50), True),
        (Tokens(output=5), 400, True, Tokens(7, output=5), True),
        (Tokens(9), 4, True, Tokens(9, output=1), True),
        (Tokens(10**6, output=10**6), 4, True, Tokens(10**6, output=10**6), False),
        (Tokens(10**6, 1, output=5), 4, True, Tokens(7, output=5), True),
        (Tokens(9, 2, 1, 10**6 + 1), 4, True, Tokens(9, 2, 1, 1), True),
        (Tokens(9), 0, True, Tokens(9), False),
        (Tokens(9), 4, False, Tokens(9, output=1), True),
        # No estimate is above what the caller's limit and the model's cap allow.
        (None, 10**9, True, Tokens(7, output=50), True),
        (REPORTED, 10**9, False, Tokens(9, 2, 1, 50), True),
        (Tokens(9, output=80), 10**9, False, Tokens(9, output=80), False),
    ],
)
def test_charged_is_the_report_or_what_was_delivered_before_it_is_complete(
    reported: Tokens | None, text_bytes: int, tokens: Tokens, *, complete: bool, estimated: bool
) -> None:
    told = Reported() if reported is None else Reported(reported, True, True)
    metered = meter(told, text_bytes, EXPECTED, complete=complete)
    assert (metered.tokens, metered.estimated) == (tokens, estimated)
    assert metered.unreported == (complete and estimated)


@each_row(
    ("asked", "served", "terms", "estimated"),
    [
        (Terms(), Terms(), Terms(), False),
        (Terms(), Terms("priority"), Terms("priority"), False),
        (Terms("priority"), Terms("standard"), Terms("standard"), False),
        (Terms("priority"), Terms(), Terms("priority"), True),
        (Terms("standard"), Terms(), Terms(), False),
        (Terms(speed="fast"), Terms("standard"), Terms("standard", "fast"), True),
        (Terms(speed="fast"), Terms(speed="standard"), Terms(speed="standard"), False),
        (Terms(inference_geo="us"), Terms(), Terms(inference_geo="us"), True),
    ],
)
def test_charged_are_the_terms_served_or_else_those_asked_for(
    asked: Terms, served: Terms, terms: Terms, *, estimated: bool
) -> None:
    expected = replace(EXPECTED, asked=Asked(asked))
    metered = meter(Reported(REPORTED, True, True, terms=served), 0, expected, complete=True)
    assert metered == Metered(REPORTED, estimated, terms=terms)


@each_row(
    ("asked", "reported", "calls", "estimated"),
    [
        ({}, None, {}, False),
        (ONE, None, ONE, True),
        (ONE, {}, ONE, True),
        (ONE, {"web_search": 0}, {}, False),
        (ONE, TWO, TWO, False),
        (ONE, {"file_search": 2}, ONE | {"file_search": 2}, True),
        (ONE, {"web_search": 10**6}, {"web_search": 10**4}, False),
        ({}, {"a b": 1, "\ud800": 1, "": 1, "x_y": 1}, {"x_y": 1}, False),
    ],
)
def test_calls_of_tools_are_those_reported_or_else_those_asked_for(
    asked: Calls, reported: Calls | None, calls: Calls, *, estimated: bool
) -> None:
    expected = replace(EXPECTED, asked=Asked(tool_calls=asked))
    metered = meter(Reported(REPORTED, True, True, reported), 0, expected, complete=True)
    assert metered == Metered(REPORTED, estimated, calls)


@each_row(
    ("value", "count"),
    [(0, 0), (7, 7), (-1, None), (True, None), (1.0, None), ("1", None), (None, None)],
)
def test_a_count_is_an_integer_that_is_not_negative(value: Any, count: int | None) -> None:
    assert read_count(value) == count
    assert are_counts(1, value, 0) == (count is not None)


def test_text_is_counted_in_utf8_and_everything_else_not_at_all() -> None:
    assert count_text() == 0
    assert count_text("a", "é", "🎉", "\ud800", None, 7, ["a"]) == 1 + 2 + 4 + 3


def test_a_report_of_the_beginning_alone_is_an_estimate_of_the_whole() -> None:
    metered = meter(Reported(REPORTED, True, True), 0, EXPECTED, complete=True, counted=False)
    assert metered == Metered(REPORTED, estimated=True, unreported=True)
