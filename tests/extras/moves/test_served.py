"""Moved in from LiteLLM: callers keep their keys and the names of their models, over HTTP."""

from __future__ import annotations

import hashlib
import json

import pytest

from tests.support.chat import say
from tests.support.extras import need_extra
from tests.support.process import GatewayProcess
from tests.support.replies import completion, json_reply
from tests.support.running import Launch, Running
from tests.support.upstream import ScriptedUpstream

pytestmark = need_extra("reloads")
OLD = "sk-litellm-0123456789abcdef"
HASHED = "sk-hashed-0123456789abcdef"
PACED = "sk-paced-0123456789abcdef"
BILLING = "/v1/dashboard/billing"


async def adopt(running: Running, lines: str, *words: str) -> None:
    file = running.gateway.folder / "old.csv"
    file.write_text(lines)
    done = await running.gateway.run("key", "adopt", "--csv", str(file), *words)
    file.unlink()
    assert done.code == 0, done.err
    assert "sk-" not in done.out + done.err


async def refuse(gateway: GatewayProcess, key: str) -> str:
    reply = await gateway.ask("GET", "/v1/models", key=key)
    assert reply.status == 401
    return str(reply.json["error"]["message"])


async def move_in(running: Running) -> None:
    """Serve the models of a config.yaml besides."""
    gateway = running.gateway
    source, target = gateway.folder / "config.json", gateway.folder / "moved.toml"
    params = {
        "api_base": running.places.urls["alpha"],
        "api_key": "sk-written-out",
        "input_cost_per_token": 0.000001,
    }
    models = [{"model_name": "large", "litellm_params": {"model": "openai/gpt-4o", **params}}]
    router = {"model_group_alias": {"largest": "large"}}
    source.write_text(json.dumps({"model_list": models, "router_settings": router}))
    done = await gateway.run("adopt", "litellm", str(source), "--to", str(target))
    assert (done.code, "written-out" in done.err + target.read_text()) == (0, False)
    moved = target.read_text().partition("[providers")
    gateway.config.write_text(gateway.config.read_text() + moved[1] + moved[2])
    assert (await gateway.run("reload")).code == 0


async def test_a_moved_gateway_serves_old_keys_and_models(
    launch: Launch, alpha: ScriptedUpstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_KEY", "sk-of-the-provider")
    running = launch()
    gateway = running.gateway
    await move_in(running)
    assert "There is no such key here" in await refuse(gateway, OLD)
    await adopt(running, f"key,account,balance,cap\n{OLD},bob,20,\n", "--json")
    hashed, paced = (hashlib.sha256(key.encode()).hexdigest() for key in (HASHED, PACED))
    await adopt(
        running, f"key,account,cap,budget\n{hashed},bob,5,\n{paced},bob,,3/day\n", "--digests"
    )
    alpha.always(json_reply(completion()))
    for key, left in ((OLD, 20), (HASHED, 5), (PACED, 3)):
        reply = await gateway.chat(key, {**say("Hi"), "model": "largest"})
        assert reply.status == 200, reply.body
        spent = (await gateway.ask("GET", "/v1/key", key=key)).json["spent_nano"]
        total = (await gateway.ask("GET", f"{BILLING}/usage", key=key)).json["total_usage"]
        told = (await gateway.ask("GET", f"{BILLING}/subscription", key=key)).json
        assert spent > 0
        assert total == pytest.approx(spent / 10**7)
        assert told["hard_limit_usd"] == left
        assert told["access_until"] == 0
    found = (await gateway.run("key", "list", "bob", "--json")).json
    assert {one["display"] for one in found} == {"…cdef", "…????"}
    assert (await gateway.run("key", "revoke", found[0]["id"])).code == 0
    assert "was revoked on" in await refuse(gateway, OLD)
    gateway.stop()
    gateway.start()
    assert "was revoked on" in await refuse(gateway, OLD)
