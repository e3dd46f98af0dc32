"""The log line of a request: its facts, and both formats."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, Literal, cast

import pytest

from gateway.api.call import Call
from gateway.api.observations import AccessLog, describe_call
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.money import Tokens
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


def test_a_request_that_was_not_admitted_has_no_facts_of_a_model() -> None:
    assert describe_call(make_call(), 401, "", 0.75) == {
        "time": "2023-11-14T22:13:20.042Z",
        "request": "req_1",
        "status": 401,
        "outcome": "refused",
        "total_ms": 750,
    }
    assert describe_call(make_call(), 200, "", 0.0)["outcome"] == "served"


def test_a_completion_has_its_key_tokens_and_cost() -> None:
    call = make_call(
        key=KEY, model="m", attempts=2, outcome="caller_left", cost_nano=5, first_byte_ms=0
    )
    call.tokens = Tokens(input=1, cached_input=2, cache_write=3, output=4)
    facts = describe_call(call, 499, "alice smith", 0.0)
    assert list(facts) == [
        "time", "request", "status", "outcome", "account", "key", "model", "provider", "attempts",
        "input", "cached", "written", "output", "cost", "first_byte_ms", "total_ms",
    ]  # fmt: skip
    assert (facts["account"], facts["key"], facts["outcome"]) == (
        "alice smith", "key_1", "caller_left",
    )  # fmt: skip
    assert (facts["provider"], facts["cost"], facts["first_byte_ms"]) == ("-", "0.000000005", 0)
    assert [facts[name] for name in ("input", "cached", "written", "output")] == [1, 2, 3, 4]


async def test_lines_are_for_people_or_for_tools() -> None:
    lines = []
    shapes: tuple[Literal["human", "json"], ...] = ("human", "json")
    for shape in shapes:
        log, written = collect(shape)
        log.write(make_call(key=KEY), 200)
        log.flush()
        lines += written
    assert lines[0].startswith(
        '2023-11-14T22:13:20.042Z req_1 status=200 outcome=served account="alice smith" key=key_1 '
    )
    assert json.loads(lines[1])["account"] == "alice smith"


async def test_lines_are_collected_and_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.observations.FLUSH_SECONDS", 0)
    log, written = collect("json")
    log.write(make_call(), 200)
    log.write(make_call(), 200)
    assert written == [], "a write a request would cost more than the rest of its line"
    while not written:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert [text.count("\n") for text in written] == [2]


async def test_many_lines_come_in_batches_and_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thread that makes them lets the event loop run between two batches."""
    monkeypatch.setattr("gateway.api.observations.BATCH_LINES", 3)
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
