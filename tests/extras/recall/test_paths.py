"""A kept response can be continued, shown and deleted, by its account alone."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from gateway.config.reader import ConfigError
from gateway.extras.recall.serving import NOT_FOUND
from gateway.extras.recall.settings import Responses
from tests.support.client import Reply
from tests.support.content import Content, ToolCall
from tests.support.extras import need_extra
from tests.support.messages import read_events
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER, Provider
from tests.support.process import RESPONSES
from tests.support.replies import Json, json_reply
from tests.support.settings import load
from tests.support.stage import Stage
from tests.support.upstream import Wait

PROVIDERS: Final = (CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER)
PREVIOUS: Final = "previous_response_id"
CALL: Final = Content(
    thinking="Hm.", calls=[ToolCall("call_1", "weather", {"city": "Köln"})], finish="tool_calls"
)
RESULT: Final = {"type": "function_call_output", "call_id": "call_1", "output": "sunny"}
QUESTION: Final = {"type": "message", "role": "user", "content": "How is the weather?"}


@dataclass(slots=True)
class Scene:
    """A caller of one provider, who goes through the paths of responses."""

    stage: Stage
    provider: Provider = CHAT_PROVIDER
    account: str = "rich"

    async def ask(self, given: object, told: Content | None = None, **more: object) -> Reply:
        """Send a request; the provider answers with `told`."""
        answer = self.provider.stream if more.get("stream") else self.provider.reply
        self.stage.alpha.play(*([] if told is None else [answer(told)]))
        body = {"model": f"over-{self.provider.kind}/0", "input": given, **more}
        return await self.stage.gateway.post(RESPONSES, self.key, body)

    async def count(self, given: object, **more: object) -> Reply:
        """Count a request's tokens, of which the provider counts 42 if it can."""
        if self.provider is RESPONSES_PROVIDER:
            self.stage.alpha.always(json_reply({"input_tokens": 42}))
        body = {"model": f"over-{self.provider.kind}/0", "input": given, **more}
        return await self.stage.gateway.post(f"{RESPONSES}/input_tokens", self.key, body)

    @property
    def key(self) -> str:
        return self.stage.callers[self.account].key

    async def see(self, path: str, method: str = "GET") -> Reply:
        return await self.stage.gateway.ask(method, f"{RESPONSES}/{path}", key=self.key)

    @property
    def sent(self) -> Json:
        sent: Json = self.stage.alpha.last.json
        return sent


def check_refused(reply: Reply, name: str, param: str) -> None:
    error = reply.json["error"]
    assert reply.status == 400
    assert (error["code"], error["param"]) == ("previous_response_not_found", param)
    for words in (name, "60 minutes", "8 MiB", "'store: false'"):
        assert words in error["message"]


@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda one: one.dialect)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_response_is_continued_as_if_all_were_sent(
    stage: Stage, provider: Provider, stream: bool
) -> None:
    scene = Scene(stage, provider)
    reply = await scene.ask("How is the weather?", CALL, stream=stream, instructions="Be brief.")
    first = read_events(reply.body)[-1]["response"] if stream else reply.json
    assert (first["store"], first["previous_response_id"]) == (True, None)
    shown = await scene.see(first["id"])
    assert shown.json == first
    done = Content("It is sunny.")
    reply = await scene.ask([RESULT], done, previous_response_id=first["id"], store=True)
    second, by_id = reply.json, scene.sent
    assert (second["store"], second["previous_response_id"]) == (True, first["id"])
    whole = [QUESTION, *first["output"], RESULT]
    cost = reply.headers["x-gateway-cost"]
    assert cost == (await scene.ask(whole, done, store=True)).headers["x-gateway-cost"]
    assert by_id == scene.sent
    references = [{"type": "item_reference", "id": one["id"]} for one in first["output"]]
    await scene.ask([QUESTION, *references, RESULT], done)
    assert by_id == scene.sent
    for less, rest in (([RESULT], {PREVIOUS: first["id"]}), ([QUESTION, *references, RESULT], {})):
        counts = [await scene.count(one, **more) for one, more in ((whole, {}), (less, rest))]
        assert counts[0].json == counts[1].json
        assert counts[0].json["input_tokens"] > 30
        assert provider is not RESPONSES_PROVIDER or by_id["input"] == scene.sent["input"]
    # A response holds its whole conversation, and needs no other one.
    assert (await scene.see(first["id"], "DELETE")).json["deleted"] is True
    reply = await scene.ask("And?", done, previous_response_id=second["id"], store=False)
    assert (reply.json["store"], reply.json["previous_response_id"]) == (False, second["id"])
    check_refused(await scene.ask("?", previous_response_id=first["id"]), first["id"], PREVIOUS)
    name = reply.json["id"]
    for refuse in (scene.ask, scene.count):
        check_refused(await refuse("?", previous_response_id=name), name, PREVIOUS)
        unknown = {"type": "item_reference", "id": "msg_unknown"}
        check_refused(await refuse([QUESTION, unknown]), "msg_unknown", "input[1]")


async def test_another_account_knows_nothing_of_it(stage: Stage) -> None:
    scene, other = Scene(stage), Scene(stage, account="other")
    kept = (await scene.ask("Hi", Content("Hello."))).json
    name, item = kept["id"], kept["output"][0]["id"]
    unknown = await other.see("resp_unknown")
    for method, path in (("GET", name), ("DELETE", name), ("GET", f"{name}/input_items")):
        reply = await other.see(path, method)
        assert (reply.status, reply.json) == (404, unknown.json)
    check_refused(await other.ask("?", previous_response_id=name), name, PREVIOUS)
    refer = {"type": "item_reference", "id": item}
    check_refused(await other.ask([refer]), item, "input[0]")
    assert (await scene.see(name)).json == kept


async def test_what_came_before_is_listed_in_pages(stage: Stage) -> None:
    scene = Scene(stage)
    first = (await scene.ask("One", Content("1."))).json
    name = (await scene.ask("Two", Content("2."), previous_response_id=first["id"])).json["id"]
    whole = (await scene.see(f"{name}/input_items?order=asc")).json
    assert [one["content"][0]["text"] for one in whole["data"]] == ["One", "1.", "Two"]
    assert all({"id", "type", "status", "role"} <= {*one} for one in whole["data"])
    ids = [one["id"] for one in whole["data"]]
    ends = (whole["first_id"], whole["last_id"], whole["has_more"])
    assert (whole["object"], *ends) == ("list", ids[0], ids[2], False)
    page = (await scene.see(f"{name}/input_items?limit=1&include[]=x")).json
    assert ([one["id"] for one in page["data"]], page["has_more"]) == ([ids[2]], True)
    rest = (await scene.see(f"{name}/input_items?after={ids[2]}")).json
    assert [one["id"] for one in rest["data"]] == [ids[1], ids[0]]
    none = (await scene.see(f"{name}/input_items?after={ids[0]}")).json
    assert (none["data"], none["first_id"], none["has_more"]) == ([], None, False)
    for query in ("limit=0", "limit=x", "limit=101", "limit=0001000", "order=up"):
        reply = await scene.see(f"{name}/input_items?{query}")
        assert (reply.status, reply.json["error"]["param"]) == (400, query.partition("=")[0])
    assert (await scene.see(f"{name}/input_items?after=x")).status == 404
    assert (await scene.see(f"{name}?stream=true")).json["error"]["param"] == "stream"
    assert (await scene.see(name, "PUT")).headers["allow"] == "GET, DELETE, HEAD"
    reply = await scene.see(f"{name}/cancel", "POST")
    assert (reply.status, "POST /v1/responses" in reply.json["error"]["message"]) == (404, True)


async def test_pages_go_through_items_of_one_id(stage: Stage) -> None:
    """SDKs ask for what comes after the last item's id until there is no more."""
    scene, ids = Scene(stage), ("msg_1", "msg_2", "msg_1", None, "msg_3")
    given = [{**QUESTION, "id": id_, "content": f"{n}"} for n, id_ in enumerate(ids)]
    name = (await scene.ask(given, Content("."))).json["id"]
    path, told = f"{name}/input_items?order=asc&limit=1", list[Json]()
    while True:
        page = (await scene.see(f"{path}&after={told[-1]['id']}" if told else path)).json
        told += page["data"]
        if not page["has_more"]:
            break
        assert len(told) < len(given), "it never ends"
    assert [one["content"][0]["text"] for one in told] == ["0", "1", "2", "3", "4"]
    assert [one["id"] for one in told if one["id"] in ids] == ["msg_1", "msg_2", "msg_3"]


async def test_an_error_names_the_callers_own_item_or_the_whole(stage: Stage) -> None:
    scene = Scene(stage)
    name = (await scene.ask("Hi", Content("Hello."))).json["id"]
    wrong = {"type": "function_call", "call_id": "c", "name": 7, "arguments": "{}"}
    reply = await scene.ask([QUESTION, wrong], previous_response_id=name)
    assert (reply.status, reply.json["error"]["param"]) == (400, "input[1].name")
    assert "input[1]" in reply.json["error"]["message"]
    for _ in range(2):
        reply = await scene.ask("x" * 600_000, Content("Hello."), previous_response_id=name)
        name = reply.json["id"]
    for refuse in (scene.ask, scene.count):
        reply = await refuse("?", previous_response_id=name)
        assert reply.status == 413
        assert "whole conversation is larger than 1 MiB" in reply.json["error"]["message"]
    for other in ("conversation", "background"):
        reply = await scene.ask("Hi", None, **{other: True})
        assert (reply.status, reply.json["error"]["param"]) == (400, other)


async def test_a_stream_that_its_caller_left_is_kept_once_it_is_read(stage: Stage) -> None:
    scene = Scene(stage)
    go = asyncio.Event()
    head, *events = CHAT_PROVIDER.stream(Content("Hello."))
    stage.alpha.play([head, *events[:2], Wait(go), *events[2:]])
    body = {"model": "over-plain/0", "input": "Hi", "stream": True}
    async with stage.gateway.chatting(scene.key, body, RESPONSES) as call:
        await call.read_head()
        begun = await call.read_until(b"response.output_text.delta")
        call.reset()
    go.set()
    name = read_events(begun.rpartition(b"event: ")[0])[0]["response"]["id"]
    await stage.books.charge_nano(name.removeprefix("resp_"))
    assert (await scene.see(name)).json["status"] == "completed"


def test_without_the_extra_its_table_is_told_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load(tmp_path, "").find(Responses) == Responses(60, 32)
    monkeypatch.setattr("gateway.config.load.find_tables", dict)
    words = r'\[responses\] needs the extra "recall"; it is not in this installation'
    with pytest.raises(ConfigError, match=words):
        load(tmp_path, "[responses]\nkeep_mb = 1")


@need_extra("reloads")
async def test_a_reload_that_switches_it_off_forgets_all(stage: Stage) -> None:
    scene, path = Scene(stage), stage.gateway.config
    kept = (await scene.ask("Hi", Content("Hello."))).json["id"]
    text = path.read_text(encoding="utf-8")
    for switch, status in (("keep_minutes = 0", 404), ("keep_minutes = 60", 404)):
        path.write_text(f"{text}\n[responses]\n{switch}\n", encoding="utf-8")
        assert (await stage.gateway.run("reload")).code == 0
        assert (await scene.see(kept)).status == status
        refused = (await scene.ask("Hi", previous_response_id=kept)).json["error"]
        assert refused["code"] == ("unsupported_parameter" if "= 0" in switch else NOT_FOUND)
    path.write_text(text, encoding="utf-8")
