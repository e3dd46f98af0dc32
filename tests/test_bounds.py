"""Limits on a request's way, in figures: what is at one is served, and one more is not.

Here are those that no other test of their folder is at.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Final

import pytest

from gateway.api.admission import find_similar
from gateway.api.paths import clean_path
from gateway.base.errors import NoFunds, UndeliverableReply, UpstreamError
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.translate.first_choice import Call
from gateway.dialects.wire.failures import map_status
from gateway.dialects.wire.names import Names
from gateway.extension import find_extras
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import MAX_INTEGER
from gateway.ledger.serving.memory import check_admission, take_hold
from gateway.upstream.http1 import BadResponse, ResponseReader
from gateway.upstream.keys import KeyRing
from gateway.upstream.provider import Breaker
from tests.documents import DOCUMENTS
from tests.ledger.contract.kit import admission
from tests.support.rows import each_row


def read_chunk_line(size: int) -> None:
    reader = ResponseReader()
    reader.feed(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    reader.feed(b"1;".ljust(size, b"x"))


def collect_reasoning(chars: int) -> None:
    StateCollector("tag").add({"reasoning_details": ["x" * (chars - len('[""]'))]})


def log_path(chars: int) -> None:
    assert clean_path("/" * chars) == "/" * chars


def suggest_name(chars: int) -> None:
    assert find_similar("m" * 99, ["m" * chars])


def compare_names(number: int) -> None:
    """Those before the last have its letters, and are another word."""
    assert find_similar("abcdef", [*("fedcba" + "f" * one for one in range(1, number)), "abcdefa"])


def judge_call(times: int) -> None:
    """All but the last time it is no whole object."""
    call = Call(is_open=True)
    for _ in range(times - 1):
        call.fragments.append('{"a": "}')
        assert not call.judge_whole()
    call.fragments = ["{}"]
    assert call.judge_whole()


def compare_spelling(chars: int) -> None:
    assert Names(["top_p"]).maybe_meant("topP".ljust(chars, "_"))


def cut_message(chars: int) -> None:
    error = map_status(400, b'{"error":{"message":"%b"}}' % (b"x" * chars), None)
    assert len(error.message) == chars


def spend(nano: int) -> None:
    line = Line("k", spent_nano=nano)
    take_hold(Key("k", Account(1, "a", False, MAX_INTEGER), KeyTerms(), line), admission())


LIMITS: Final[list[tuple[int, Callable[[int], None], type[Exception]]]] = [
    (16 << 10, read_chunk_line, BadResponse),
    (8 << 20, collect_reasoning, UndeliverableReply),
    (8 * 10**18 - 1, spend, NoFunds),
    (8, judge_call, AssertionError),
    (1000, cut_message, AssertionError),
    (500, lambda chars: check_admission(replace(admission(), model="m" * chars)), ValueError),
    (80, log_path, AssertionError),
    (4096, compare_spelling, AssertionError),
    (100, suggest_name, AssertionError),
    (16, compare_names, AssertionError),
]


@each_row(("most", "use", "refused"), LIMITS)
def test_the_limit_is_served_and_one_more_is_not(
    most: int, use: Callable[[int], None], refused: type[Exception]
) -> None:
    use(most)
    with pytest.raises(refused):
        use(most + 1)


def is_here(name: str) -> bool:
    """Return whether a constant is the core's, or that of an extra that was not taken away."""
    return not name.startswith("extras.") or name.split(".")[1] in find_extras()


TEXTS: Final = [path.read_text("utf-8") for path in DOCUMENTS]
_FIGURE: Final = re.compile(r"(?<![\w,])([0-9][0-9,]*)( [KM]iB| ms)?")
_UNITS: Final = {" KiB": 1 << 10, " MiB": 1 << 20}

BOUNDS: Final = [
    (who, bound, re.findall(r"`([^`]+)`", where))
    for text in TEXTS
    for who, bound, where in re.findall(
        r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$",
        text.partition("## Who can use up what")[2].partition("\n## ")[0],
        re.MULTILINE,
    )[1:]
]


def read_bound(name: str) -> float:
    """Return the value of a constant, or the default of a setting."""
    module, _, constant = name.rpartition(".")
    if module:
        return float(getattr(importlib.import_module(f"gateway.{module}"), constant))
    table = re.search(rf"^\| `server` \| `{name}` \| `(\d+)`", "".join(TEXTS), re.MULTILINE)
    assert table is not None, name
    return float(table[1]) * (1 << 20 if name.endswith("_mb") else 1)


@each_row(("who", "bound", "where"), BOUNDS)
def test_the_bounds_of_the_document_are_those_of_the_code(
    who: str, bound: str, where: list[str]
) -> None:
    told = [int(n.replace(",", "")) * _UNITS.get(unit, 1) for n, unit in _FIGURE.findall(bound)]
    kept = [
        read_bound(name) * (1000 if name == "base.turns.TURN_SECONDS" else 1)
        for name in filter(is_here, where)
    ]
    assert len(BOUNDS) >= 10, "the table was found"
    assert set(kept) <= set(map(float, told)), (who, told)


def test_a_breaker_is_open_for_thirty_seconds_after_five_failures() -> None:
    breaker = Breaker()
    assert [breaker.fail(7.0) for _ in range(5)] == [False] * 4 + [True]
    assert [breaker.wait_seconds(now) for now in (36.75, 37.0)] == [0.25, 0]


def test_broken_replies_within_a_tenth_of_a_second_are_one_failure() -> None:
    breaker = Breaker()
    for now, failures in ((0.0, 1), (0.099, 1), (0.1, 2)):
        breaker.fail(now, at_once=True)
        assert breaker.failures == failures


def test_a_limited_key_rests_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SimpleNamespace(monotonic=lambda: 7.0)
    monkeypatch.setattr("gateway.upstream.keys.time", clock)
    ring, error = KeyRing("p", ["a", "b"]), UpstreamError("m")
    error.refuses_key = True
    assert ring.let_rest(ring.keys[0], "a", error)
    assert [key.rest_seconds for key in ring.keys] == [60, 0]
