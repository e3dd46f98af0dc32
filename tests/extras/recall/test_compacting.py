"""Summaries of conversations are made over every provider, and go on as the conversation would."""

from __future__ import annotations

from typing import Final

import openai
import pytest

from gateway.extras.recall.serving import NOT_FOUND
from tests.extras.recall.test_paths import CALL, PROVIDERS, QUESTION, RESULT, Scene
from tests.support.client import Reply
from tests.support.content import Content
from tests.support.extras import need_extra
from tests.support.pairs import RESPONSES_PROVIDER, Provider
from tests.support.process import RESPONSES
from tests.support.replies import Json, json_reply
from tests.support.stage import Stage

MADE: Final = {"type": "compaction", "id": "cmp_1", "encrypted_content": "sealed"}
SUMMARY: Final = "The user wants to know the weather in Köln, which is sunny."
TRIGGER: Final = {"type": "compaction_trigger"}


def make_reply(*output: Json) -> Json:
    usage = {"input_tokens": 90, "output_tokens": 9, "total_tokens": 99}
    return {"id": "resp_1", "object": "response", "created_at": 7, "status": "completed", "output": [*output], "usage": usage}  # fmt: skip


async def compact(
    scene: Scene, given: object, told: Content | None = None, **more: object
) -> Reply:
    """Ask for a summary; the provider makes one, unless it tells something else."""
    provider, own = scene.provider, scene.provider is RESPONSES_PROVIDER
    own_reply = json_reply(make_reply(*([MADE] if told is None else [])))
    scene.stage.alpha.play(own_reply if own else provider.reply(told or Content(SUMMARY)))
    body = {"model": f"over-{provider.kind}/0", "input": given, **more}
    body = {name: value for name, value in body.items() if value is not None}
    return await scene.stage.gateway.post(f"{RESPONSES}/compact", scene.key, body)


def read_said(messages: list[Json]) -> list[str]:
    return [one["content"][0]["text"] for one in messages if one["role"] == "user"]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda one: one.dialect)
async def test_a_conversation_goes_on_with_what_stands_in_its_place(
    stage: Stage, provider: Provider
) -> None:
    scene = Scene(stage, provider)
    first = (await scene.ask("How is the weather?", CALL)).json
    whole = [QUESTION, *first["output"], RESULT]
    reply = await compact(scene, whole)
    assert reply.status == 200
    compacted, sent = reply.json, scene.sent
    assert float(reply.headers["x-gateway-cost"]) > 0
    assert {*compacted} >= {"id", "object", "created_at", "output", "usage"}
    assert compacted["object"] == "response.compaction"
    *users, made = compacted["output"]
    assert read_said(users) == ["How is the weather?"]
    assert all({"id", "type", "status"} <= {*one} for one in users)
    assert made["type"] == "compaction"
    is_own = provider is RESPONSES_PROVIDER
    assert not is_own or (sent["input"][-1], sent["store"]) == (TRIGGER, False)
    reply = await scene.ask([*compacted["output"], QUESTION], Content("Sunny."), store=False)
    assert reply.status == 200
    assert str(scene.sent).count(str(MADE)[1:-1] if is_own else SUMMARY) == 1
    # What is kept stands for itself.
    again = await compact(scene, [RESULT], previous_response_id=first["id"])
    assert read_said(again.json["output"][:-1]) == read_said(users)
    assert scene.sent == sent
    refused = await compact(scene, None, previous_response_id=reply.json["id"])
    assert (refused.status, refused.json["error"]["code"]) == (400, NOT_FOUND)


async def test_nothing_is_kept_and_nothing_streams(stage: Stage) -> None:
    scene = Scene(stage)
    compacted = (await compact(scene, "Hi", stream=True, store=True)).json
    assert compacted["output"][0]["content"] == [{"type": "input_text", "text": "Hi"}]
    assert (await scene.see(compacted["id"])).status == 404


@pytest.mark.parametrize(("given", "param"), [(None, "input"), (7, "input"), ([7], "input[0]")])
async def test_what_no_request_may_have_is_refused(stage: Stage, given: object, param: str) -> None:
    scene = Scene(stage)
    reply = await compact(scene, given)
    assert (reply.status, reply.json["error"]["param"]) == (400, param)


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda one: one.dialect)
async def test_half_a_summary_is_an_error(stage: Stage, provider: Provider) -> None:
    """A client would lose its conversation. The provider's work is charged."""
    reply = await compact(Scene(stage, provider), "Hi", Content(SUMMARY, finish="length"))
    assert (reply.status, reply.headers["x-should-retry"]) == (502, "false")
    assert await stage.books.charge_nano(reply.headers["x-request-id"]) > 0


async def test_a_provider_that_names_no_response_is_answered_for(stage: Stage) -> None:
    scene = Scene(stage, RESPONSES_PROVIDER)
    stage.alpha.play(json_reply(make_reply(MADE) | {"id": None}))
    body = {"model": f"over-{scene.provider.kind}/0", "input": "Hi", "stream_options": {}}
    reply = await stage.gateway.post(f"{RESPONSES}/compact", scene.key, body)
    assert (reply.status, reply.json["id"][:9]) == (200, "resp_req_")
    assert "stream_options" not in scene.sent


async def test_a_large_conversation_is_compacted_beside_the_loop(stage: Stage) -> None:
    said = "x" * 600_000
    reply = await compact(Scene(stage), said)
    assert reply.json["output"][0]["content"][0]["text"] == said


async def test_openais_sdk_reads_it(stage: Stage) -> None:
    scene = Scene(stage)
    stage.alpha.play(scene.provider.reply(Content(SUMMARY)))
    client = openai.AsyncOpenAI(base_url=stage.gateway.base_url, api_key=scene.key)
    async with client:
        compacted = await client.responses.compact(model="over-plain/0", input="Hi")
    assert (compacted.object, compacted.output[-1].type) == ("response.compaction", "compaction")
    assert compacted.usage.total_tokens > 0


@need_extra("reloads")
async def test_a_conversation_that_is_sent_whole_needs_nothing_kept(stage: Stage) -> None:
    scene, path = Scene(stage), stage.gateway.config
    text = path.read_text(encoding="utf-8")
    for switch, code in (("keep_mb = 0", "unsupported_parameter"), ("keep_mb = 32", NOT_FOUND)):
        path.write_text(f"{text}\n[responses]\n{switch}\n", encoding="utf-8")
        assert (await stage.gateway.run("reload")).code == 0
        assert (await compact(scene, "Hi")).status == 200
        refused = await compact(scene, "Hi", previous_response_id="resp_1")
        assert refused.json["error"]["code"] == code
    path.write_text(text, encoding="utf-8")
