"""A key that ended: its holder is told when, and made-up keys do not keep the ledger busy."""

from __future__ import annotations

import asyncio
import re
import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway import apikeys
from gateway.api import keys
from gateway.api.keys import explain_end
from gateway.api.limits import Bucket
from gateway.api.state import LOOKUPS_PER_MINUTE
from gateway.errors import LedgerUnavailable
from gateway.ledger.key_records import EndedKey
from tests.support.chat import check_error, say
from tests.support.rows import each_row
from tests.support.seed import Caller
from tests.support.stage import Stage

UNKNOWN = "Incorrect API key provided. Its header is "
WAIT_SECONDS = 30.0
TIME = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC\. Make another"


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


@each_row(("account", "end"), [("revoked", "was revoked"), ("expired", "expired")])
async def test_a_caller_is_told_when_the_key_ended(stage: Stage, account: str, end: str) -> None:
    reply = await stage.chat(say("plain/0"), key=stage.callers[account].key)
    message = check_error(reply, 401, "invalid_api_key")
    assert re.match(rf"Incorrect API key provided\. This key {end} on {TIME}", message)


async def test_a_key_revoked_while_it_is_used_is_told(stage: Stage, spare: Caller) -> None:
    """It leaves the memory with the revocation, which the ledger still knows."""
    assert (await stage.gateway.ask("GET", "/v1/models", key=spare.key)).status == 200
    assert (await stage.gateway.run("key", "revoke", spare.key_id)).code == 0
    async with asyncio.timeout(WAIT_SECONDS):
        while (await stage.gateway.ask("GET", "/v1/models", key=spare.key)).status != 401:
            pass
    reply = await stage.gateway.ask("GET", "/v1/models", key=spare.key)
    assert re.match(
        rf"Incorrect API key provided\. This key was revoked on {TIME}",
        reply.json["error"]["message"],
    )


async def test_an_unknown_key_gets_no_more(stage: Stage) -> None:
    reply = await stage.chat(say("plain/0"), key=apikeys.make_key())
    assert check_error(reply, 401, "invalid_api_key").startswith(UNKNOWN)
