"""The log line of each request, without a word of what was said."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from gateway.api.front import Call
from gateway.base.money import Tokens
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.server.access_log import AccessLog, describe_call
from tests.support import records


def make_call(**facts: Any) -> Call:
    return records.make_call(started_ms=1_700_000_000_042, **facts)


KEY = Key("key_1", Account(1, "alice smith", False, 10**9), KeyTerms(), Line("key_1"))


def collect(shape: Literal["human", "json"]) -> tuple[AccessLog, list[str]]:
    """Make a log, and the list that its lines come to: one text for each batch."""
    written: list[str] = []

    def take(make: Callable[[], str], count: int) -> None:
        text = make()
        assert text.count("\n") == count
        written.append(text)

    return AccessLog(shape, take), written


def test_a_line_has_a_time_and_a_duration() -> None:
    facts = describe_call(make_call(), 401, "", 0.75)
    assert (facts["time"], facts["total_ms"]) == ("2023-11-14T22:13:20.042Z", 750)
    assert describe_call(make_call(), 200, "", 0.0)["outcome"] == "served"


async def test_lines_are_for_people_or_for_tools() -> None:
    facts = {"key": KEY, "model": "m", "attempts": 2, "first_byte_ms": 0}
    tokens = Tokens(input=1, cached_input=2, cache_write=3, output=4)
    call = make_call(outcome="caller_left", cost_nano=5, tokens=tokens, **facts)
    lines = []
    shapes: tuple[Literal["human", "json"], ...] = ("human", "json")
    for shape in shapes:
        log, written = collect(shape)
        log.write(call, 499)
        log.flush()
        lines += written
    assert lines[0].startswith(
        "2023-11-14T22:13:20.042Z req_1 status=499 outcome=caller_left"
        ' account="alice smith" key=key_1 model=m provider=- attempts=2'
        " input=1 cached=2 written=3 output=4 cost=0.000000005 first_byte_ms=0 total_ms="
    )
    facts = json.loads(lines[1])
    assert [facts[name] for name in ("account", "status", "input")] == ["alice smith", 499, 1]


async def test_lines_are_collected_and_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.server.access_log.LINES_SECONDS", 0)
    log, written = collect("json")
    log.write(make_call(), 200)
    log.write(make_call(), 200)
    assert written == [], "a write a request would cost more than the rest of its line"
    while not written:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert [text.count("\n") for text in written] == [2]


async def test_many_lines_come_in_batches_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that makes them lets the event loop run between two batches."""
    monkeypatch.setattr("gateway.server.access_log.BATCH_LINES", 3)
    log, written = collect("json")
    for status in range(200, 208):
        log.write(make_call(), status)
    log.flush()
    assert [text.count("\n") for text in written] == [3, 3, 2]
    lines = "".join(written).splitlines()
    assert [json.loads(line)["status"] for line in lines] == list(range(200, 208))


async def test_a_line_tells_how_things_were_at_the_request_s_end() -> None:
    """It is made later, when its account may have another name."""
    account = Account(1, "before", False, 10**9)
    made: list[Callable[[], str]] = []
    log = AccessLog("json", lambda make, _: made.append(make))
    call = make_call(key=Key("key_1", account, KeyTerms(), Line("key_1")))
    log.write(call, 200)
    ended = time.monotonic()
    account.name = "after"
    await asyncio.sleep(0.002)
    log.flush()
    facts = json.loads(made[0]())
    assert facts["account"] == "before"
    assert facts["total_ms"] <= ended * 1000


async def test_the_shape_can_change_between_two_batches() -> None:
    log, written = collect("human")
    log.write(make_call(), 200)
    log.flush()
    log.reconfigure(cast("Any", SimpleNamespace(server=SimpleNamespace(log="json"))))
    log.write(make_call(), 200)
    log.flush()
    assert not written[0].startswith("{")
    assert json.loads(written[1])["status"] == 200
