"""Parsers of command line arguments."""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable

import pytest

from gateway.cli.arguments import (
    amount,
    amount_above_zero,
    amount_or_zero,
    count,
    duration_seconds,
    end,
    expiry,
    model_list,
    start,
    word,
)
from tests.support.rows import each_row

NOW_MS = 1_700_000_000_000
DAY_MS = 86_400_000


@each_row(
    ("text", "nano"),
    [("5", 5 * 10**9), ("+0.25", 250_000_000), ("-0.5", -500_000_000), ("0.000000001", 1)],
)
def test_an_amount_is_exact(text: str, nano: int) -> None:
    assert amount(text) == nano


@each_row("text", ["", "x", "1e3", "0.0000000001", "1,5", "nan", "1000000001", "--5"])
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        amount(text)


def test_amounts_know_their_sign() -> None:
    assert amount_or_zero("0") == 0
    for refusing, text in ((amount_or_zero, "-1"), (amount_above_zero, "0")):
        with pytest.raises(ArgumentTypeError):
            refusing(text)


@each_row(
    ("text", "seconds"),
    [("0", 0), ("90s", 90), ("15m", 900), ("1h", 3600), ("24h", 86_400), ("7d", 604_800), ("2w", 1_209_600), ("36600d", 36_600 * 86_400)],
)  # fmt: skip
def test_a_duration_has_a_unit(text: str, seconds: int) -> None:
    assert duration_seconds(text) == seconds


@each_row("text", ["", "5", "5y", "-1h", "1.5h", "h", "9999999999w", "36601d", "٣h"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        duration_seconds(text)


@each_row(
    ("text", "ms"),
    [
        ("1970-01-02", DAY_MS),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01 00:00:00.250", 250),
    ],
)
def test_a_moment_is_utc_unless_it_says_otherwise(text: str, ms: int) -> None:
    assert start(text) == ms


@each_row(
    ("text", "begins_ms", "ends_ms"),
    [
        ("7d", NOW_MS - 7 * DAY_MS, NOW_MS - 7 * DAY_MS),
        ("24h", NOW_MS - DAY_MS, NOW_MS - DAY_MS),
        ("0m", NOW_MS, NOW_MS),
        ("today", 1_699_920_000_000, 1_699_920_000_000 + DAY_MS),
        ("yesterday", 1_699_920_000_000 - DAY_MS, 1_699_920_000_000),
        ("2023-11-01", 1_698_796_800_000, 1_698_796_800_000 + DAY_MS),
    ],
)
def test_a_period_is_counted_back_or_has_days(text: str, begins_ms: int, ends_ms: int) -> None:
    assert start(text, lambda: NOW_MS) == begins_ms
    assert end(text, lambda: NOW_MS) == ends_ms


def test_a_last_day_is_included_and_a_last_moment_is_not() -> None:
    assert end("1970-01-01") == DAY_MS
    assert end("1970-01-01T12:00") == DAY_MS // 2


@each_row("text", ["", "soon", "2026-13-01", "2026-02-30", "12:00", "2026", "7", "-7d", "Today"])
@each_row("read", [start, end])
def test_what_is_no_moment_is_refused(read: Callable[[str], int], text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        read(text)


@each_row(
    ("text", "ms"),
    [
        ("30d", NOW_MS + 30 * DAY_MS),
        ("12h", NOW_MS + DAY_MS // 2),
        ("2023-11-15", 1_700_006_400_000),
        ("2023-11-14T22:13:20.001", NOW_MS + 1),
    ],
)
def test_an_expiry_is_a_duration_or_a_moment_to_come(text: str, ms: int) -> None:
    assert expiry(text, lambda: NOW_MS).at(NOW_MS) == ms


@each_row("text", ["0", "0d", "2023-11-14", "2023-11-14T22:13:20", "never", "today"])
def test_an_expiry_that_has_passed_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        expiry(text, lambda: NOW_MS)


def test_models_are_listed_with_commas() -> None:
    assert model_list("a, b/c,a") == ("a", "b/c")
    for text in ("", "a,", ",a", "a,,b", "a\x1b"):
        with pytest.raises(ArgumentTypeError):
            model_list(text)


def test_a_word_is_something_on_one_line() -> None:
    assert word("a b") == "a b"
    for text in ("", " ", "a\nb", "\x1b[2J", "\udcff"):
        with pytest.raises(ArgumentTypeError):
            word(text)


def test_a_count_is_whole_and_not_negative() -> None:
    assert [count("0"), count("1000000000")] == [0, 10**9]
    for text in ("-1", "1.0", "1000000001", "", "١"):
        with pytest.raises(ArgumentTypeError):
            count(text)
