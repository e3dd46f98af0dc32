"""The small endpoints: models, the caller's own key, health, receipts; budgets, as callers see them."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.admin.keys import add_key
from gateway.api.admission import find_similar
from gateway.api.lookups import describe_own_key, report_health, report_readiness
from gateway.base.errors import LedgerUnavailable
from gateway.base.process import describe_version
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.call_records import Spent
from gateway.ledger.key_records import KeyTerms, Limits, Terms
from gateway.ledger.opening import open_books
from gateway.ledger.versions import VERSION
from tests.ledger.kit import make_place, query, serving
from tests.support.chat import Used, check_error, check_messages_error, say
from tests.support.records import make_call
from tests.support.replies import completion, json_reply, sse, sse_start, text_chunks
from tests.support.rows import each_row
from tests.support.seed import NANO, Caller
from tests.support.stage import Stage
from tests.support.upstream import Wait


async def test_models_are_those_that_key_and_account_may_use(stage: Stage) -> None:
    """A key may name more than its account has; that gives it nothing."""
    account = stage.callers["two-at-a-time"].account
    with open_books(stage.gateway.database) as books:
        key = add_key(books, account, KeyTerms(("plain/1", "plain/2"))).secret
    stage.gateway.canaries.append(key.encode())
    reply = await stage.gateway.ask("GET", "/v1/models", key=key)
    assert [entry["id"] for entry in reply.json["data"]] == ["plain/1"]
    for model in ("plain/0", "plain/2"):
        check_error(await stage.chat(say(model), key=key), 403, "model_not_allowed", param="model")
        assert (await stage.gateway.ask("GET", f"/v1/models/{model}", key=key)).status == 404


async def test_what_can_be_read_has_a_head(stage: Stage) -> None:
    key = f"Authorization: Bearer {stage.key}\r\n"
    for path in ("/v1/models", "/v1/models/plain/0", "/v1/key", "/healthz"):
        async with stage.gateway.connect() as call:
            head = f"HEAD {path} HTTP/1.1\r\nHost: x\r\n{key}Connection: close\r\n\r\n"
            await call.send(head.encode())
            told = await call.read_to_close()
        assert told.startswith(b"HTTP/1.1 200 OK\r\n")
        assert told.index(b"\r\n\r\n") == len(told) - 4


@each_row(("own", "default", "told"), [(None, 5, 5), (None, 0, None), (0, 5, None), (7, 5, 7)])
def test_limits_are_those_in_force(own: int | None, default: int, told: int | None) -> None:
    """0 means unlimited, for a key as in the configuration."""
    account = Account(1, "a", suspended=False, balance_nano=5, held_nano=2)
    key = Key("key_1", account, KeyTerms(("b", "a"), own, own, own, "k", 10), Line("key_1", 12))
    account.terms = Terms(("b", "c"), own, own, own)
    billing, limits = SimpleNamespace(currency="EUR"), Limits(default, default, default)
    config: Any = SimpleNamespace(billing=billing, limits=limits, account_limits=limits)
    body = describe_own_key(key, Spent(1, 2, 3), config, 0)
    names = ("requests_per_minute", "tokens_per_minute", "concurrency")
    assert [body[name] for name in names] == [told] * 3
    assert body["account"] == {"models": ["b", "c"], **dict.fromkeys(names, told)}
    assert (body["models"], body["currency"], body["cap_remaining_nano"]) == (["a", "b"], "EUR", 0)
    assert (body["spent_today_nano"], body["spent_7d_nano"], body["spent_30d_nano"]) == (1, 2, 3)
    assert (body["available"], body["held_nano"]) == ("0.000000003", 2)


async def test_key_without_a_ledger_to_read_is_a_503(tmp_path: Path) -> None:
    """A table that cannot be read stands for a disk that cannot."""
    place = make_place(tmp_path)
    async with serving(place) as (ledger, key):
        query(place.path, "DROP TABLE daily")
        with pytest.raises(LedgerUnavailable):
            await ledger.read_spent(key, 20_000)


@each_row(
    ("draining", "writable", "status", "said"),
    [
        (False, True, 200, "ready"),
        (True, True, 503, "draining"),
        (False, False, 503, "ledger"),
        (True, False, 503, "draining"),
    ],
)
async def test_ready_is_who_takes_requests(
    *, draining: bool, writable: bool, status: int, said: str
) -> None:
    request = make_mocked_request("GET", "/readyz")
    ledger = SimpleNamespace(writable=writable)
    config = SimpleNamespace(storage=SimpleNamespace(location=Path("gateway.db")))
    call = make_call(gateway=SimpleNamespace(draining=draining, ledger=ledger, config=config))
    reply = await report_readiness(request, call)
    assert reply.status == status
    assert reply.text is not None
    assert said in reply.text
    lives = await report_health(request, call)
    assert (lives.status, lives.text) == (200, "alive\n"), "it lives all the same"
    assert lives.headers["X-Gateway-Version"] == describe_version(VERSION)


def test_one_of_very_many_names_is_found() -> None:
    known = [f"vendor-{number % 7}/model-{number:05}" for number in range(10_000)]
    assert find_similar("vendor-4/modle-09124", known) in known


# ---- receipts and budgets -----------------------------------------------------------------------

COST_NANO = Used(11, 7).cost_nano
ISO = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")


async def fetch(stage: Stage, request_id: str, key: str = "") -> dict[str, Any]:
    reply = await stage.gateway.ask("GET", f"/v1/receipts/{request_id}", key=key or stage.key)
    receipt: dict[str, Any] = reply.json
    assert (reply.status, receipt["request_id"]) == (200, request_id)
    return receipt


async def test_receipt_tells_what_was_corrected(stage: Stage) -> None:
    """The charge stays as it was; corrections of other requests are not shown."""
    stage.alpha.always(json_reply(completion()))
    one, other = [(await stage.chat(say(stage.fresh("plain")))).request_id for _ in range(2)]
    assert (await fetch(stage, one))["corrections"] == []
    with open_books(stage.gateway.database) as books:
        for amount_nano, note in ((7 * NANO // 4, "half of it came"), (-NANO, "too much"), (0, "")):
            about = one if note else other
            books.entries.correct("rich", amount_nano, note=note or "n", request_id=about)
    receipt = await fetch(stage, one)
    assert receipt["cost_nano"] == COST_NANO
    first, second = receipt["corrections"]
    assert ISO.fullmatch(first.pop("created"))
    assert first == {"amount": "1.75", "amount_nano": 7 * NANO // 4, "note": "half of it came"}
    assert (second["amount"], second["amount_nano"], second["note"]) == ("-1.00", -NANO, "too much")
    assert [entry["note"] for entry in (await fetch(stage, other))["corrections"]] == ["n"]


async def test_what_is_in_flight_is_held_and_pending(stage: Stage, spare: Caller) -> None:
    go_on, model = asyncio.Event(), stage.fresh("plain")
    stage.alpha.play([*sse_start(text_chunks(["a"])), Wait(go_on), sse(b"data: [DONE]\n\n")])
    async with stage.chatting(say(model, stream=True), key=spare.key) as call:
        await call.read_head()
        receipt = await fetch(stage, call.headers["x-request-id"], spare.key)
        told = (await stage.gateway.ask("GET", "/v1/key", key=spare.key)).json
        go_on.set()
    assert (receipt["state"], receipt["outcome"]) == ("pending", "pending")
    assert receipt["provider"] == f"{model.replace('/', '-')}-alpha"
    unknown = [receipt[name] for name in ("ended_by", "status", "attempts", "first_byte_ms")]
    assert [*unknown, receipt["ended"], receipt["cost_nano"]] == [None] * 5 + [0]
    assert told["held_nano"] == receipt["hold_nano"] > 0
    assert told["available_nano"] == told["balance_nano"] - told["held_nano"]


async def test_a_spent_budget_is_a_402_that_says_when_it_resets(
    stage: Stage, spare: Caller
) -> None:
    """Both dialects; a higher budget is in force at the very next request."""
    gateway, key = stage.gateway, spare.key
    stage.alpha.always(json_reply(completion()))
    edit = ("key", "edit", spare.key_id, "--budget")
    assert (await gateway.run(*edit, "0.000000001/month")).code == 0
    assert (await gateway.chat(key, say("plain/0"))).status == 200
    refused = await gateway.chat(key, say("plain/0"))
    check_error(refused, 402, "insufficient_quota")
    assert re.fullmatch(
        r"This key's budget of 0\.000000001 \w{3} a month is spent\."
        r" It resets at \d{4}-\d\d-01 00:00 UTC\. Raise it or use another key\.",
        refused.json["error"]["message"],
    )
    assert "retry-after" not in refused.headers
    messages = await gateway.ask(
        "POST", "/v1/messages", key=key, headers={"anthropic-version": "2023-06-01"}, body=b"{}"
    )
    check_messages_error(messages, 402, "billing_error")
    told = (await gateway.ask("GET", "/v1/key", key=key)).json["budget"]
    assert (told["name"], told["period"], told["amount_nano"]) == (None, "month", 1)
    assert (told["spent_nano"], told["remaining_nano"]) == (COST_NANO, 0)
    raised = await gateway.run(*edit, "5/month")
    assert raised.code == 0, raised.err
    assert (await gateway.chat(key, say("plain/0"))).status == 200
