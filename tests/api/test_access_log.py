"""The log line of a request: its facts, and both formats."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.api import AccessLog, Call
from gateway.api.access_log import describe_call
from gateway.ledger.base import Account, Key
from gateway.ledger.key_records import KeyTerms
from gateway.money import Tokens
from tests.support import records


def make_call(**facts: Any) -> Call:
    return records.make_call(started_ms=1_700_000_000_042, **facts)


KEY = Key("key_1", Account(1, "alice smith", False, 10**9), KeyTerms())


def test_a_request_that_was_not_admitted_has_no_facts_of_a_model() -> None:
    facts = describe_call(make_call(), 401)
    del facts["total_ms"]
    assert facts == {
        "time": "2023-11-14T22:13:20.042Z",
        "request": "req_1",
        "status": 401,
        "outcome": "refused",
    }
    assert describe_call(make_call(), 200)["outcome"] == "served"


def test_a_completion_has_its_key_tokens_and_cost() -> None:
    call = make_call(
        key=KEY, model="m", attempts=2, outcome="caller_left", cost_nano=5, first_byte_ms=0
    )
    call.tokens = Tokens(input=1, cached_input=2, cache_write=3, output=4)
    facts = describe_call(call, 499)
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
    human: list[str] = []
    tools: list[str] = []
    for log in (AccessLog("human", human.append), AccessLog("json", tools.append)):
        log.write(make_call(key=KEY), 200)
        log.flush()
    assert human[0].startswith(
        '2023-11-14T22:13:20.042Z req_1 status=200 outcome=served account="alice smith" key=key_1 '
    )
    assert "".join(human).count("\n") == 1
    assert json.loads(tools[0])["account"] == "alice smith"


async def test_lines_are_collected_and_written_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.api.access_log.FLUSH_SECONDS", 0)
    written: list[str] = []

    log = AccessLog("json", written.append)
    log.write(make_call(), 200)
    log.write(make_call(), 200)
    assert written == [], "a write a request would cost more than the rest of its line"
    while not written:  # noqa: ASYNC110 - a timer of the loop
        await asyncio.sleep(0)
    assert [text.count("\n") for text in written] == [2]
