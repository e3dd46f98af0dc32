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
from tests.ledger.kit import find_key, make_place, query
from tests.support.chat import check_error, say
from tests.support.records import make_call
from tests.support.replies import sse, sse_start, text_chunks
from tests.support.rows import each_row
from tests.support.seed import Caller
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


async def test_key_tells_what_is_held(stage: Stage, spare: Caller) -> None:
    go_on = asyncio.Event()
    stage.alpha.play([*sse_start(text_chunks(["a"])), Wait(go_on), sse(b"data: [DONE]\n\n")])
    async with stage.chatting(say(stage.fresh("plain"), stream=True), key=spare.key) as call:
        await call.read_head()
        told = (await stage.gateway.ask("GET", "/v1/key", key=spare.key)).json
        go_on.set()
    assert told["held_nano"] > 0
    assert told["available_nano"] == told["balance_nano"] - told["held_nano"]


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


@each_row(
    ("name", "allowed", "told"),
    [
        (OFF, [], IS_OFF),
        (OFF, [OFF], IS_OFF),
        (OFF, ["qwen3-8b"], NOT_HERE),
        ("qwen3-8", ["gpt-4o"], NOT_HERE),
        ("qwen3-8", ["qwen3-8b"], "does not exist here; did you mean 'qwen3-8b'?"),
        ("qwen-3-8b", [], "does not exist here; did you mean 'qwen3-8b'?"),
        ("Qwen3-8B", [], "does not exist here; did you mean 'qwen3-8b'?"),
        ("openai/gpt-4o-mini", [], "does not exist here; did you mean 'gpt-4o-mini'?"),
        ("gpt-4o-mini-2024-07-18", [], "does not exist here; did you mean 'gpt-4o-mini'?"),
        ("claude-opus-4", [], NOT_HERE),
        ("", [], NOT_HERE),
        ("gpt-4o" * MAX_COMPARED_CHARS, [], NOT_HERE),
    ],
)
def test_a_key_learns_of_models_that_it_may_use(name: str, allowed: list[str], told: str) -> None:
    """That one is switched off, or what a mistyped name may have meant."""
    assert find(name, *allowed) == told


def test_one_of_very_many_names_is_found() -> None:
    known = [f"vendor-{number % 7}/model-{number:05}" for number in range(10_000)]
    assert find_similar("vendor-4/modle-09124", known) in known


@each_row("error", [UnknownModel, ModelNotFound])
def test_the_words_say_what_to_do(error: type[UnknownModel]) -> None:
    listed = "GET /v1/models lists the models."
    assert error("x").message == f"The model 'x' does not exist here. {listed}"
    assert error("x", IS_OFF).message == f"The model 'x' {IS_OFF} {listed}"
