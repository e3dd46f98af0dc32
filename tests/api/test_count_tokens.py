"""`POST /v1/messages/count_tokens` asks messages providers and estimates for others; it is free."""

from __future__ import annotations

import asyncio
from functools import partial
from types import SimpleNamespace
from unittest.mock import MagicMock

import pytest

from gateway.api.limits import MAX_OWN_COUNTS
from gateway.api.routes import MAX_COUNT_BYTES, _count
from gateway.dialects.exchanges import COUNTERS
from gateway.errors import BodyTooLarge
from tests.support.chat import check_messages_error, estimate_sent
from tests.support.config import UPSTREAM_NAME
from tests.support.messages import ask, make_message
from tests.support.process import COUNT_TOKENS
from tests.support.records import make_call
from tests.support.replies import dumps, error_reply, http, json_reply
from tests.support.rows import each_row
from tests.support.seed import NANO, Caller
from tests.support.stage import Stage
from tests.support.upstream import Script, Wait

VERSION = {"anthropic-version": "2023-06-01"}


async def test_counting_is_passed_on_and_free(stage: Stage, spare: Caller) -> None:
    """The provider's reply is passed on; no ledger row is made, and no balance is needed."""
    stage.alpha.always(json_reply({"input_tokens": 2095, "vendor": 1}))
    body = ask(stage.fresh("messages"), tools=[], system="Be brief.")
    del body["max_tokens"]
    headers = VERSION | {"anthropic-beta": "one"}
    path = f"{COUNT_TOKENS}?beta=true"
    asked = [spare.key, stage.callers["empty"].key]
    replies = [await stage.gateway.post(path, key, body, headers=headers) for key in asked]
    for reply in replies:
        assert (reply.status, reply.json) == (200, {"input_tokens": 2095, "vendor": 1})
        assert "x-gateway-estimated" not in reply.headers
    sent = stage.alpha.last
    assert (sent.target, sent.json) == (COUNT_TOKENS, body | {"model": UPSTREAM_NAME})
    assert (sent.headers["x-api-key"], sent.headers["anthropic-beta"]) == (stage.secret, "one")
    assert stage.books.count_settled(spare.account) == 0
    assert [stage.books.request(one.request_id) for one in replies] == [None, None]
    assert stage.books.balance_nano(spare.account) == 100 * NANO


async def test_counting_names_the_model_as_the_caller_knows_it(stage: Stage) -> None:
    """The gateway's name of the model stands in the count and in error messages."""
    for status, passed in ((400, 400), (404, 502), (429, 503)):
        model = stage.fresh("messages")
        reply = {"input_tokens": 9, "model": UPSTREAM_NAME}
        stage.alpha.play(json_reply(reply), error_reply(status, f"'{UPSTREAM_NAME}' says no"))
        counted = await stage.gateway.post(COUNT_TOKENS, stage.key, ask(model))
        assert counted.json == {"input_tokens": 9, "model": model}
        refused = await stage.gateway.post(COUNT_TOKENS, stage.key, ask(model))
        assert [one.json["model"] for one in stage.alpha.exchanges[-2:]] == [UPSTREAM_NAME] * 2
        assert (refused.status, UPSTREAM_NAME.encode() in refused.body) == (passed, False)
        if status == 400:
            assert f"'{model}' says no" in refused.json["error"]["message"]


async def test_counting_over_a_chat_provider_is_an_estimate(stage: Stage, spare: Caller) -> None:
    text, system = "Grüße 🎉", "Be brief."
    body = ask(stage.fresh("plain"), text, system=system)
    reply = await stage.gateway.post(COUNT_TOKENS, spare.key, body)
    assert (reply.status, reply.json) == (200, {"input_tokens": estimate_sent(dumps(body))})
    assert reply.headers["x-gateway-estimated"] == "true"
    assert stage.alpha.exchanges == []
    assert stage.books.count_settled(spare.account) == 0


async def test_counting_takes_the_messages_route_of_several(stage: Stage) -> None:
    stage.beta.play(json_reply({"input_tokens": 5}))
    body = ask(stage.fresh("chat-then-messages"))
    reply = await stage.gateway.post(COUNT_TOKENS, stage.key, body)
    assert reply.json == {"input_tokens": 5}
    assert stage.alpha.exchanges == []


NO_COUNTS: dict[str, Script] = {
    "HTML": [http(b"<html>hello</html>", content_type="text/html")],
    "nothing": [http(b"")],
    "a failure": error_reply(500),
    "an error": json_reply({"type": "error", "error": {"type": "api_error", "message": "x"}}),
    "no object": json_reply([]),
    "no number": json_reply({"input_tokens": "many"}),
}


@each_row("name", NO_COUNTS)
async def test_what_is_no_count_is_not_passed_on(stage: Stage, name: str) -> None:
    stage.alpha.play(NO_COUNTS[name])
    reply = await stage.gateway.post(COUNT_TOKENS, stage.key, ask(stage.fresh("messages")))
    assert reply.status >= 500
    assert reply.json["type"] == "error"


async def test_provider_that_cannot_count_can_still_answer(stage: Stage) -> None:
    """Imitations lack this path, and agents count often, so it must not open the breaker."""
    model = stage.fresh("messages")
    message, lost = json_reply(make_message()), error_reply(404)
    stage.alpha.always(lambda one: lost if one.target == COUNT_TOKENS else message)
    for _ in range(8):
        await stage.gateway.post(COUNT_TOKENS, stage.key, ask(model))
    assert (await stage.message(ask(model))).status == 200


async def test_an_account_counts_few_at_once(stage: Stage, spare: Caller) -> None:
    """A count holds a body and a connection and costs nothing, so others must not wait for it."""
    gate, key = asyncio.Event(), spare.key
    stage.alpha.always([Wait(gate), *json_reply({"input_tokens": 1})])
    body = ask(stage.fresh("messages"))
    post = partial(stage.gateway.post, COUNT_TOKENS, key, body)
    before = len(stage.alpha.exchanges)
    async with asyncio.TaskGroup() as group:
        counts = [group.create_task(post()) for _ in range(MAX_OWN_COUNTS)]
        await stage.alpha.wait_for(before + MAX_OWN_COUNTS)
        check_messages_error(await post(), 429, "rate_limit_error")
        others = group.create_task(stage.gateway.post(COUNT_TOKENS, stage.key, body))
        await stage.alpha.wait_for(before + MAX_OWN_COUNTS + 1)
        gate.set()
    assert [one.result().status for one in (*counts, others)] == [200] * (MAX_OWN_COUNTS + 1)
    assert (await post()).status == 200


async def test_a_body_to_count_has_a_limit_of_its_own() -> None:
    """Counting is free, so its bodies are smaller than those that are paid for."""
    server = SimpleNamespace(max_body_mb=32)
    http = MagicMock(
        content_length=MAX_COUNT_BYTES + 1, headers={"Content-Type": "application/json"}
    )
    http.content.is_eof.return_value = False
    call = make_call(gateway=SimpleNamespace(config=SimpleNamespace(server=server)))
    with pytest.raises(BodyTooLarge, match="4 MiB"):
        await _count(http, call, COUNTERS[0])
