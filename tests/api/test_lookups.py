"""The small endpoints: models, the caller's own key, health."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import make_mocked_request

from gateway.admin.keys import add_key
from gateway.api.admission import MAX_COMPARED_CHARS, find_problem, find_similar
from gateway.api.routes import describe_own_key, report_health, report_readiness
from gateway.config.records import Limits
from gateway.errors import LedgerUnavailable, ModelNotFound, UnknownModel
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.call_records import Spent
from gateway.ledger.key_records import KeyTerms, Terms
from gateway.ledger.opening import open_books
from gateway.ledger.sqlite.serving import open_sqlite
from gateway.money import format_amount
from tests.ledger.kit import find_key, make_place, query
from tests.support.chat import Used, check_error, say
from tests.support.records import make_call
from tests.support.replies import completion, json_reply, sse, sse_start, text_chunks, usage
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


TODAY = 20_000
"""A day counted from the epoch."""

USED = Used(1000, 50, 900)
FIELDS = {
    "id", "name", "models", "requests_per_minute", "tokens_per_minute", "concurrency", "expires",
    "currency", "account", "cap", "cap_nano", "cap_remaining", "cap_remaining_nano", "spent", "spent_nano",
    "spent_today", "spent_today_nano", "spent_7d", "spent_7d_nano", "spent_30d", "spent_30d_nano",
    "balance", "balance_nano", "held", "held_nano", "available", "available_nano",
    "budget",
}  # fmt: skip
SPENT = ("spent_nano", "spent_today_nano", "spent_7d_nano", "spent_30d_nano")


async def fetch(stage: Stage, key: str) -> dict[str, Any]:
    reply = await stage.gateway.ask("GET", "/v1/key", key=key)
    assert (reply.status, reply.body) == (200, reply.body)
    assert key.encode() not in reply.body
    told: dict[str, Any] = reply.json
    assert set(told) == FIELDS
    for name in [one for one in told if one.endswith("_nano")]:
        nano = told[name]
        assert told[name.removesuffix("_nano")] == (None if nano is None else format_amount(nano))
    return told


async def test_key_tells_its_spend_and_its_account(stage: Stage, spare: Caller) -> None:
    """The figures are exact, and include the previous reply."""
    told = await fetch(stage, spare.key)
    assert (told["id"], told["currency"], told["models"]) == (spare.key_id, "USD", None)
    assert [told[name] for name in SPENT] == [0] * 4
    assert (told["balance_nano"], told["available_nano"]) == (100 * NANO, 100 * NANO)
    stage.alpha.play(json_reply(completion(usage=usage(1000, 50, cached_tokens=900))))
    assert (await stage.chat(say(stage.fresh("plain")), key=spare.key)).status == 200
    told = await fetch(stage, spare.key)
    assert [told[name] for name in SPENT] == [USED.cost_nano] * 4
    assert told["balance_nano"] == 100 * NANO - USED.cost_nano


async def test_key_tells_what_is_held(stage: Stage, spare: Caller) -> None:
    go_on = asyncio.Event()
    stage.alpha.play([*sse_start(text_chunks(["a"])), Wait(go_on), sse(b"data: [DONE]\n\n")])
    async with stage.chatting(say(stage.fresh("plain"), stream=True), key=spare.key) as call:
        await call.read_head()
        told = await fetch(stage, spare.key)
        go_on.set()
    assert told["held_nano"] > 0
    assert told["available_nano"] == told["balance_nano"] - told["held_nano"]


async def test_key_asks_for_a_key_and_for_no_balance(stage: Stage) -> None:
    told = await fetch(stage, stage.callers["empty"].key)
    assert (told["balance_nano"], told["available_nano"]) == (0, 0)
    check_error(await stage.gateway.ask("GET", "/v1/key"), 401, "invalid_api_key")
    suspended = await stage.gateway.ask("GET", "/v1/key", key=stage.callers["suspended"].key)
    check_error(suspended, 403, "account_suspended")


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
    async with open_sqlite(place.path) as ledger:
        key = find_key(ledger, place)
        query(place.path, "DROP TABLE daily")
        with pytest.raises(LedgerUnavailable):
            await ledger.read_spent(key, TODAY)


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
    call = make_call(gateway=SimpleNamespace(draining=draining, ledger=ledger))
    reply = await report_readiness(request, call)
    assert reply.status == status
    assert reply.text is not None
    assert said in reply.text
    assert (await report_health(request, call)).status == 200, "it lives all the same"


ON = ("qwen3-8b", "gpt-4o", "gpt-4o-mini")
OFF = "gpt-5.5"
IS_OFF = "is switched off here: its provider is not set up."
NOT_HERE = "does not exist here."


def find(name: str, *allowed: str) -> str:
    models = dict.fromkeys((*ON, OFF))
    config = SimpleNamespace(models=models)
    routes = SimpleNamespace(models=dict.fromkeys(ON))
    key = Key("k", Account(1, "a", False, 5), KeyTerms(allowed or None), Line("k"))
    return find_problem(cast("Any", SimpleNamespace(config=config, routes=routes)), key, name)


def test_a_model_whose_provider_is_off_is_told_so() -> None:
    assert find(OFF) == IS_OFF
    assert find(OFF, OFF) == IS_OFF


def test_a_key_learns_only_of_models_that_it_may_use() -> None:
    assert find(OFF, "qwen3-8b") == NOT_HERE
    assert find("qwen3-8", "gpt-4o") == NOT_HERE
    assert find("qwen3-8", "qwen3-8b") == "does not exist here; did you mean 'qwen3-8b'?"


@each_row(
    ("name", "meant"),
    [
        ("qwen-3-8b", "qwen3-8b"),
        ("Qwen3-8B", "qwen3-8b"),
        ("openai/gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("claude-opus-4", None),
        ("", None),
        ("gpt-4o" * MAX_COMPARED_CHARS, None),
    ],
)
def test_a_mistyped_name_gets_a_suggestion(name: str, meant: str | None) -> None:
    told = NOT_HERE if meant is None else f"does not exist here; did you mean '{meant}'?"
    assert find(name) == told


def test_one_of_very_many_names_is_found() -> None:
    known = [f"vendor-{number % 7}/model-{number:05}" for number in range(10_000)]
    assert find_similar("vendor-4/modle-09124", known) in known


@each_row("error", [UnknownModel, ModelNotFound])
def test_the_words_say_what_to_do(error: type[UnknownModel]) -> None:
    listed = "GET /v1/models lists the models."
    assert error("x").message == f"The model 'x' does not exist here. {listed}"
    assert error("x", IS_OFF).message == f"The model 'x' {IS_OFF} {listed}"
