"""The models list over HTTP: which models a key sees, in both shapes."""

from __future__ import annotations

from typing import Any

from tests.support.chat import check_error, say
from tests.support.config import UPSTREAM_NAME
from tests.support.rows import each_row
from tests.support.stage import Stage

MODEL_KEYS = {"id", "object", "created", "owned_by"}


async def test_models_are_listed(stage: Stage) -> None:
    reply = await stage.gateway.ask("GET", "/v1/models", key=stage.key)
    assert (reply.status, reply.json["object"]) == (200, "list")
    for entry in reply.json["data"]:
        assert set(entry) >= MODEL_KEYS
        assert (entry["object"], entry["owned_by"]) == ("model", "tester")
        assert isinstance(entry["created"], int)
    ids = [entry["id"] for entry in reply.json["data"]]
    assert {"plain/0", "pair/0", "refused/0"} <= set(ids)
    assert len(ids) == len(set(ids))
    assert UPSTREAM_NAME not in reply.body.decode()


async def test_models_are_those_that_key_and_account_may_use(stage: Stage) -> None:
    """A key may name more than its account has; that gives it nothing."""
    account = stage.callers["two-at-a-time"].account
    wanted = "plain/1,plain/2"
    key = (await stage.gateway.run("key", "add", account, "--models", wanted)).out.strip()
    stage.gateway.canaries.append(key.encode())
    reply = await stage.gateway.ask("GET", "/v1/models", key=key)
    assert [entry["id"] for entry in reply.json["data"]] == ["plain/1"]
    for model in ("plain/0", "plain/2"):
        check_error(await stage.chat(say(model), key=key), 403, "model_not_allowed", param="model")
        assert (await stage.gateway.ask("GET", f"/v1/models/{model}", key=key)).status == 404


@each_row("path", ["plain/0", "plain%2F0", "plain%2f0"])
async def test_model_is_retrieved_by_its_id(stage: Stage, path: str) -> None:
    reply = await stage.gateway.ask("GET", f"/v1/models/{path}", key=stage.key)
    assert reply.status == 200
    assert reply.json["id"] == "plain/0"


@each_row("account", ["empty", "rich"])
async def test_models_need_a_key_and_no_balance(stage: Stage, account: str) -> None:
    key = stage.callers[account].key
    assert (await stage.gateway.ask("GET", "/v1/models", key=key)).status == 200
    assert (await stage.gateway.ask("GET", "/v1/models/plain/0", key=key)).status == 200


async def test_models_that_a_key_may_not_use_are_not_there(stage: Stage) -> None:
    account = stage.callers["rich"].account
    verb = await stage.gateway.run("key", "add", account, "--models", "plain/0")
    key = verb.out.strip()
    stage.gateway.canaries.append(key.encode())
    reply = await stage.gateway.ask("GET", "/v1/models", key=key)
    assert [entry["id"] for entry in reply.json["data"]] == ["plain/0"]
    assert (await stage.gateway.ask("GET", "/v1/models/plain/0", key=key)).status == 200
    assert (await stage.gateway.ask("GET", "/v1/models/pair/0", key=key)).status == 404


async def test_models_in_the_messages_shape(stage: Stage) -> None:
    """Requests with `anthropic-version` get the messages shape."""
    headers = {"anthropic-version": "2023-06-01", "x-api-key": stage.key}
    reply = await stage.gateway.ask("GET", "/v1/models?limit=1000", headers=headers)
    assert reply.status == 200
    page: dict[str, Any] = reply.json
    assert {"data", "has_more", "first_id", "last_id"} <= set(page)
    assert (len(page["data"]), page["has_more"]) == (1000, True)
    ids, rest = [entry["id"] for entry in page["data"]], page
    while rest["has_more"]:
        path = f"/v1/models?limit=1000&after_id={rest['last_id']}"
        rest = (await stage.gateway.ask("GET", path, headers=headers)).json
        ids += [entry["id"] for entry in rest["data"]]
    plain = (await stage.gateway.ask("GET", "/v1/models", key=stage.key)).json
    assert ids == [entry["id"] for entry in plain["data"]]
    assert all(entry["type"] == "model" for entry in page["data"])
    assert all({"id", "display_name", "created_at"} <= set(entry) for entry in page["data"])
    one = await stage.gateway.ask("GET", "/v1/models/plain/0", headers=headers)
    assert (one.json["type"], one.json["id"]) == ("model", "plain/0")
