"""The messages API over plain HTTP: headers, ids, errors, token counts, routes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.chat import (
    Used,
    check_messages_error,
    say,
)
from tests.support.config import UPSTREAM_NAME
from tests.support.messages import (
    STOP,
    UPSTREAM_ID,
    ask,
    check_reply,
    frames,
    make_events,
    make_message,
    read_stream,
)
from tests.support.process import MESSAGES
from tests.support.replies import completion, error_reply, json_reply, sse_reply, stream_chunks
from tests.support.rows import each_row
from tests.support.stage import Stage

VERSION = {"anthropic-version": "2023-06-01"}
STREAMED = sse_reply(frames(make_events()), done=False)
CHAT_STREAMED = sse_reply(stream_chunks(["Hello, ", "world!"]))


async def test_reply_is_the_providers_under_our_name(stage: Stage) -> None:
    """Vendor fields, spacing and key order stay; the model is the requested one."""
    model = stage.fresh("messages")
    value = make_message("Grüße 🎉", vendor={"a": [1, None], "model": "kept"})
    stage.alpha.play(json_reply(value))
    reply = await stage.message(ask(model))
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.json == value | {"model": model}
    assert list(reply.json) == list(value)
    assert reply.json["id"] == UPSTREAM_ID


async def test_provider_gets_its_own_name_key_and_path(stage: Stage) -> None:
    model = stage.fresh("messages")
    body = ask(model, "Grüße 🎉", temperature=0.5, top_k=3, vendor={"x": 1}, container=None)
    stage.alpha.play(json_reply(make_message()))
    headers = {"X-Custom": "1", "Cookie": "a=b", "anthropic-beta": "one,two", "User-Agent": "me"}
    await stage.message(body, headers=headers)
    sent = stage.alpha.last
    assert (sent.method, sent.target) == ("POST", "/v1/messages")
    assert sent.json == body | {"model": UPSTREAM_NAME}
    assert sent.headers["x-api-key"] == stage.secret
    assert sent.headers["anthropic-version"] == "2023-06-01"
    assert sent.headers["anthropic-beta"] == "one,two"
    assert not {"x-custom", "cookie", "authorization"} & set(sent.headers)


async def test_callers_version_is_passed_on(stage: Stage) -> None:
    """A malformed version is not passed on."""
    stage.alpha.always(json_reply(make_message()))
    for given, sent in (("2026-10-21", "2026-10-21"), ("", "2023-06-01")):
        headers = {"Anthropic-Version": given}
        await stage.message(ask(stage.fresh("messages")), headers=headers)
        assert stage.alpha.last.headers["anthropic-version"] == sent


async def test_betas_of_several_lines_are_all_passed_on(stage: Stage) -> None:
    """HTTP allows a list to be split into several lines."""
    stage.alpha.play(json_reply(make_message()))
    body = json.dumps(ask(stage.fresh("messages"))).encode()
    lines = [("anthropic-beta", "one,two"), ("anthropic-beta", "three")]
    pairs = [("Content-Type", "application/json"), *lines]
    reply = await stage.gateway.ask("POST", MESSAGES, key=stage.key, headers=pairs, body=body)
    assert reply.status == 200
    sent = stage.alpha.last.headers["anthropic-beta"]
    assert [beta.strip() for beta in sent.split(",")] == ["one", "two", "three"]


async def test_versions_and_betas_mean_nothing_to_a_chat_provider(stage: Stage) -> None:
    stage.alpha.play(json_reply(completion()))
    headers = VERSION | {"anthropic-beta": "one,two"}
    check_reply(await stage.message(ask(model := stage.fresh("plain")), headers=headers), model)
    sent = stage.alpha.last
    assert not {"anthropic-version", "anthropic-beta", "x-api-key"} & set(sent.headers)
    assert sent.headers["authorization"] == f"Bearer {stage.secret}"


@each_row("query", ["?beta=true", "?beta=true&x=%20", "?"])
async def test_query_changes_nothing(stage: Stage, query: str) -> None:
    stage.alpha.play(json_reply(make_message()))
    path = MESSAGES + query
    reply = await stage.gateway.post(path, stage.key, ask(stage.fresh("messages")))
    assert reply.status == 200
    assert stage.alpha.last.target == MESSAGES


async def test_request_ids_are_ours(stage: Stage) -> None:
    """Both headers have our id, whatever ids provider and caller send."""
    stage.alpha.play(json_reply(make_message(), headers={"request-id": "req_theirs"}), STREAMED)
    model = stage.fresh("messages")
    for stream in (False, True):
        reply = await stage.message(ask(model, stream=stream), headers={"request-id": "callers"})
        assert reply.headers["request-id"] == reply.headers["x-request-id"]
        assert reply.request_id not in {"req_theirs", "callers"}
        assert (await stage.settled(reply)).outcome == "complete"


async def test_errors_of_every_path_below_speak_messages(stage: Stage) -> None:
    ask_ = stage.gateway.ask
    check_messages_error(await ask_("GET", MESSAGES), 405, "invalid_request_error")
    check_messages_error(await ask_("POST", f"{MESSAGES}/batches"), 404, "not_found_error")
    check_messages_error(await ask_("POST", MESSAGES, body=b"{}"), 401, "authentication_error")
    reply = await stage.message(b"x=1", headers={"Content-Type": "text/plain"})
    check_messages_error(reply, 415, "invalid_request_error")
    check_messages_error(await stage.message(b" " * (1 << 20) + b"{}"), 413, "request_too_large")


ONLY_MESSAGES: dict[str, Any] = {"top_k": 5}
"""A field that a chat provider does not have."""


@each_row("stream", [False, True])
async def test_route_that_cannot_carry_the_request_is_passed_over(
    stage: Stage, *, stream: bool
) -> None:
    stage.beta.play(STREAMED if stream else json_reply(make_message()))
    body = ask(stage.fresh("chat-then-messages"), stream=stream, **ONLY_MESSAGES)
    reply = await stage.message(body)
    assert reply.status == 200
    assert stage.alpha.exchanges == []
    assert stage.beta.last.json == body | {"model": UPSTREAM_NAME}


@pytest.mark.parametrize("stream", [False, True])
async def test_failover_from_chat_to_messages_and_back(stage: Stage, *, stream: bool) -> None:
    stage.alpha.play(error_reply(500))
    stage.beta.play(STREAMED if stream else json_reply(make_message()))
    model = stage.fresh("chat-then-messages")
    reply = await stage.message(ask(model, stream=stream))
    assert (reply.status, len(stage.alpha.exchanges), len(stage.beta.exchanges)) == (200, 1, 1)
    assert stage.alpha.last.target == "/v1/chat/completions"
    assert stage.beta.last.target == MESSAGES
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano
    stage.alpha.play(error_reply(529))
    stage.beta.play(CHAT_STREAMED if stream else json_reply(completion()))
    model = stage.fresh("messages-then-chat")
    reply = await stage.message(ask(model, stream=stream))
    assert reply.status == 200
    if stream:
        assert read_stream(reply.body, model)[-1] == STOP
    else:
        check_reply(reply, model)
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano


async def test_failover_serves_chat_callers_too(stage: Stage) -> None:
    stage.alpha.play(error_reply(429))
    stage.beta.play(json_reply(make_message("from messages")))
    reply = await stage.chat(say(stage.fresh("chat-then-messages")))
    assert reply.json["choices"][0]["message"]["content"] == "from messages"


async def test_no_route_left_that_can_carry_it(stage: Stage) -> None:
    """One route can carry the field but is down, the other cannot: not the caller's fault."""
    stage.alpha.play(error_reply(500))
    reply = await stage.message(ask(stage.fresh("messages-then-chat"), **ONLY_MESSAGES))
    check_messages_error(reply, 503, "overloaded_error")
    assert stage.beta.exchanges == []
    assert await stage.charge_nano(reply) == 0


@each_row("stream", [False, True])
async def test_demo_answers_messages(stage: Stage, *, stream: bool) -> None:
    model = "demo/0"
    reply = await stage.message(ask(model, "Say it back.", stream=stream))
    assert reply.status == 200
    if stream:
        events = read_stream(reply.body, model)
        texts = [one["delta"]["text"] for one in events if one["type"] == "content_block_delta"]
        assert "".join(texts) == "Say it back."
    else:
        message = check_reply(reply, model)
        assert [block.text for block in message.content if block.type == "text"] == ["Say it back."]
    assert await stage.charge_nano(reply) == Used(3, 3).cost_nano
