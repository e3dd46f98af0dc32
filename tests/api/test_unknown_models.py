"""Models that are not there: switched off, mistyped, or none of the key's business."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from gateway.api.lookups import MAX_NAME_CHARS, find_problem, find_similar
from gateway.errors import ModelNotFound, UnknownModel
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms
from tests.support.chat import check_error, say
from tests.support.rows import each_row
from tests.support.stage import Stage

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
        ("gpt-4o" * MAX_NAME_CHARS, None),
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


async def test_every_caller_gets_the_suggestion(stage: Stage) -> None:
    meant = "did you mean 'embed-demo/0'?"
    for path, body in (
        ("/v1/chat/completions", say("embed-dmeo/0")),
        ("/v1/embeddings", {"model": "embed-dmeo/0", "input": "x"}),
        ("/v1/responses", {"model": "embed-dmeo/0", "input": "x"}),
    ):
        reply = await stage.gateway.post(path, stage.key, body)
        assert meant in check_error(reply, 400, "model_not_found", param="model")
    reply = await stage.message(say("embed-dmeo/0", max_tokens=1))
    assert (reply.status, reply.json["error"]["type"]) == (400, "invalid_request_error")
    assert meant in reply.json["error"]["message"]
    reply = await stage.gateway.ask("GET", "/v1/models/embed-dmeo/0", key=stage.key)
    assert meant in check_error(reply, 404, "model_not_found", param="model")
