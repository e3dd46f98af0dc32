"""Admission by keys, accounts, rates and balances, in the order of refusals; keys that ended."""

from __future__ import annotations

import asyncio
import json
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.api import keys
from gateway.api.keys import explain_end
from gateway.api.limits import Bucket
from gateway.api.state import LOOKUPS_PER_MINUTE
from gateway.errors import LedgerUnavailable
from gateway.ledger.key_records import EndedKey
from tests.support.chat import check_error, say
from tests.support.client import request
from tests.support.process import CHAT
from tests.support.replies import completion, json_reply
from tests.support.rows import each_row
from tests.support.stage import Stage

GOOD = json.dumps(say("plain/0")).encode()
JSON_TYPE = {"Content-Type": "application/json"}


async def test_expect_is_refused_before_the_body(stage: Stage) -> None:
    """A bad key or a body that is too large gets no 100 (RFC 9110, section 10.1.1)."""
    expect = JSON_TYPE | {"Expect": "100-continue", "Content-Length": "100"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, expect | {"Authorization": "Bearer nobody"}))
        check_error(await call.read_all(), 401, "invalid_api_key")
    large = expect | {"Authorization": f"Bearer {stage.key}", "Content-Length": "99999999"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, large))
        check_error(await call.read_all(), 413, "request_too_large")


async def test_expect_is_answered_when_all_is_well(stage: Stage) -> None:
    stage.alpha.play(json_reply(completion()))
    body = json.dumps(say(stage.fresh("plain"))).encode()
    headers = JSON_TYPE | {"Expect": "100-continue", "Content-Length": str(len(body))}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, headers | {"Authorization": f"Bearer {stage.key}"}))
        await call.read_head()
        assert call.status == 100
        await call.send(body)
        assert (await call.read_all()).status == 200


async def test_body_shorter_than_declared_is_not_forwarded(stage: Stage) -> None:
    """The caller closes its side early, so the body is incomplete (RFC 9112, section 8)."""
    headers = JSON_TYPE | {"Authorization": f"Bearer {stage.key}", "Content-Length": "5000"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, headers, GOOD))
        call.half_close()
        await call.read_to_close()
    assert stage.alpha.connections == 0


UNKNOWN = "Incorrect API key provided. Its header is "


class FakeLedger:
    def __init__(self, ended: EndedKey | Exception | None) -> None:
        self.ended = ended
        self.lookups = 0

    async def read_ended_key(self, _: bytes) -> EndedKey | None:
        self.lookups += 1
        if isinstance(self.ended, Exception):
            raise self.ended
        return self.ended


async def explain(ledger: object, lookups: Bucket | None = None) -> str:
    lookups = lookups or Bucket(LOOKUPS_PER_MINUTE, time.monotonic())
    gateway = SimpleNamespace(ledger=ledger, ended_key_lookups=lookups)
    return (await explain_end(cast("Any", gateway), b"")).message


@each_row(
    ("ended", "told"),
    [
        (
            EndedKey(60_000, None),
            "Incorrect API key provided. This key was revoked on 1970-01-01 00:01 UTC.",
        ),
        (
            EndedKey(60_000, 1),
            "Incorrect API key provided. This key was revoked on 1970-01-01 00:01 UTC.",
        ),
        (
            EndedKey(None, 120_000),
            "Incorrect API key provided. This key expired on 1970-01-01 00:02 UTC.",
        ),
        (None, UNKNOWN),
        (LedgerUnavailable(), UNKNOWN),
    ],
)
async def test_a_key_s_end_is_told(ended: EndedKey | Exception | None, told: str) -> None:
    assert (await explain(FakeLedger(ended))).startswith(told)


async def test_many_made_up_keys_ask_the_ledger_seldom() -> None:
    ledger, lookups = FakeLedger(EndedKey(0, None)), Bucket(LOOKUPS_PER_MINUTE, time.monotonic())
    told = [await explain(ledger, lookups) for _ in range(3 * LOOKUPS_PER_MINUTE)]
    assert LOOKUPS_PER_MINUTE <= ledger.lookups < 2 * LOOKUPS_PER_MINUTE
    assert "revoked" in told[0]
    assert told[-1].startswith(UNKNOWN)


async def test_a_ledger_that_hangs_holds_up_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hanging(FakeLedger):
        async def read_ended_key(self, _: bytes) -> EndedKey | None:
            await asyncio.Event().wait()
            raise AssertionError

    monkeypatch.setattr(keys, "LOOKUP_SECONDS", 0)
    assert (await explain(Hanging(None))).startswith(UNKNOWN)
