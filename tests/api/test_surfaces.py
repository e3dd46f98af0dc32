"""Each surface over a provider of its own dialect: the reply, and what of a request and a reply passes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pytest

from tests.dialects.chat.kit import chunk, events, role, text
from tests.dialects.responses.kit import delta, frame, make_response, read_events
from tests.support import messages, responses
from tests.support.chat import Used, check_messages_error, estimate_sent, say
from tests.support.config import UPSTREAM_NAME
from tests.support.embeddings import EMBEDDINGS, embed, embeddings
from tests.support.messages import (
    STOP,
    ask,
    check_reply,
    frames,
    make_events,
    make_message,
    read_stream,
)
from tests.support.process import CHAT, MESSAGES, RESPONSES
from tests.support.replies import (
    chunked,
    completion,
    dumps,
    error_reply,
    http,
    json_reply,
    sse_reply,
    stream_chunks,
    stream_head,
)
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.texts import COMPLETIONS, complete, text_completion
from tests.support.upstream import End

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Surface:
    """A path, the kind of its models, a request, and a reply of its provider."""

    path: str
    kind: str
    ask: Callable[..., Json]
    reply: Callable[..., Json]
    key_header: str = "authorization"
    adds: Json = field(default_factory=dict)
    """Headers that the gateway adds to a request."""
    output_tokens: int = 7

    def key_of(self, secret: str) -> str:
        return secret if self.key_header == "x-api-key" else f"Bearer {secret}"


STATELESS: Final = {"store": False, "include": ["reasoning.encrypted_content"]}
SURFACES: Final = {
    "chat": Surface(CHAT, "plain", say, completion),
    "messages": Surface(
        MESSAGES, "messages", messages.ask, messages.make_message, "x-api-key"
    ),
    "responses": Surface(
        RESPONSES, "responses", responses.ask, responses.make_response, adds=STATELESS
    ),
    "completions": Surface(COMPLETIONS, "text", complete, text_completion),
    "embeddings": Surface(EMBEDDINGS, "embed", embed, embeddings, output_tokens=0),
    "embeddings of a responses provider": Surface(
        EMBEDDINGS, "embed-responses", embed, embeddings, output_tokens=0
    ),
}  # fmt: skip
OWN_HEADERS: Final = {
    "Set-Cookie": "session=upstream",
    "Server": "nginx/upstream",
    "X-Internal-Key": "theirs",
    "x-request-id": "theirs",
    "request-id": "req_theirs",
    "openai-organization": "our-organisation",
}
each_surface = each_row("name", SURFACES)


@each_surface
async def test_a_reply_is_the_providers_under_our_name_and_is_charged(
    stage: Stage, name: str
) -> None:
    """Vendors' fields and the order stay; headers pass by an allow-list; ids are ours and differ."""
    surface, ids = SURFACES[name], {"theirs", "req_theirs", "callers-own"}
    model = stage.fresh(surface.kind)
    value = surface.reply() | {"vendor": {"a": [1, None, "Wölt 🎉"], "model": "kept"}}
    stage.alpha.always([http(dumps(value), headers=OWN_HEADERS)])
    for _ in range(2):
        asked = {"x-request-id": "callers-own", "request-id": "callers-own"}
        reply = await stage.gateway.post(surface.path, stage.key, surface.ask(model), headers=asked)
        assert reply.headers["content-type"].startswith("application/json")
        assert reply.json == value | {"model": model}
        assert list(reply.json) == list(value)
        assert int(reply.headers["content-length"]) == len(reply.body)
        assert not {"set-cookie", "x-internal-key", "openai-organization"} & {*reply.headers}
        assert "upstream" not in reply.headers.get("server", "")
        ids |= {reply.request_id}
        assert reply.headers.get("request-id", reply.request_id) == reply.request_id
        assert await stage.charge_nano(reply) == Used(11, surface.output_tokens).cost_nano
        row = await stage.settled(reply)
        assert (row.input, row.output) == (11, surface.output_tokens)
        assert (row.outcome, row.estimated) == ("complete", False)
    assert len(ids) == 5


@each_surface
async def test_a_provider_gets_its_own_name_key_and_path(stage: Stage, name: str) -> None:
    """No field or header changes where a request goes: the sink receives nothing, nor our key."""
    surface, sink = SURFACES[name], stage.running.places.urls["beta"]
    fields = ("api_base", "base_url", "callback_url", "api_key", "organization")
    body = surface.ask(stage.fresh(surface.kind), "Grüße 🎉", vendor={"x": 1}, user="u")
    body |= {"user_config": {"api_base": sink}, "extra_headers": {"Host": sink}}
    body |= dict.fromkeys(fields, sink)
    headers = {"X-Forwarded-Host": sink, "X-Forwarded-For": sink, "Forwarded": f"host={sink}"}
    headers |= {"X-Custom": "1", "Cookie": "a=b", "User-Agent": "me"}
    stage.alpha.play(json_reply(surface.reply()))
    reply = await stage.gateway.post(surface.path, stage.key, body, headers=headers)
    assert (reply.status, stage.beta.connections) == (200, 0)
    sent = stage.alpha.last
    assert (sent.method, sent.target) == ("POST", surface.path)
    assert sent.json == body | {"model": UPSTREAM_NAME} | surface.adds
    assert sent.headers[surface.key_header] == surface.key_of(stage.secret)
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["accept-encoding"] == "identity"
    assert stage.key not in str(sent.headers)
    left_out = {"x-custom", "cookie", "x-forwarded-host", "x-forwarded-for", "forwarded"}
    assert not ({"authorization", "x-api-key"} - {surface.key_header} | left_out) & {*sent.headers}


VERSION = {"anthropic-version": "2023-06-01"}
STREAMED = sse_reply(frames(make_events()), done=False)
CHAT_STREAMED = sse_reply(stream_chunks(["Hello, ", "world!"]))


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


COUNT: Final = f"{RESPONSES}/input_tokens"
USAGE: Final = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
CREATED: Final = {"type": "response.created", "response": make_response(status="in_progress")}
COMPLETED: Final = {"type": "response.completed", "response": make_response(usage=USAGE)}
WORDS: Final = [delta(f"word{at}", obfuscation="x" * at) for at in range(9)]


async def test_a_stream_passes_and_is_charged_as_its_last_event_says(stage: Stage) -> None:
    model = stage.fresh("responses")
    body = frame(CREATED, *WORDS, COMPLETED)
    stage.alpha.play(sse_reply([body], done=False))
    reply = await stage.gateway.post(RESPONSES, stage.key, responses.ask(model, stream=True))
    assert reply.body == body.replace(b'"theirs"', b'"%b"' % model.encode())
    row = await stage.settled(reply)
    assert (row.input, row.output, row.outcome) == (11, 7, "complete")


CRASHED: Final = frame({"type": "error", "code": "rate_limit_exceeded", "message": "crashed"})
CODEX: Final = {"user-agent": "codex_cli_rs/0.149.0"}


@each_row(
    ("last", "headers", "code"),
    [
        (b"", {}, "server_error"),
        (CRASHED, {}, "rate_limit_exceeded"),
        (b"", CODEX, "invalid_prompt"),
        (CRASHED, CODEX, "invalid_prompt"),
        (CRASHED, {"Originator": "codex_vscode"}, "invalid_prompt"),
    ],
)
async def test_a_failure_continues_the_stream(
    stage: Stage, last: bytes, headers: dict[str, str], code: str
) -> None:
    """Codex would send the whole turn again; other clients are told what the provider says."""
    model = stage.fresh("responses")
    begun = [stream_head(), chunked(frame(CREATED, *WORDS) + last)]
    stage.alpha.play([*begun, End.FIN])
    body = responses.ask(model, stream=True)
    reply = await stage.gateway.post(RESPONSES, stage.key, body, headers=headers)
    failed = read_events(reply.body)[-1]
    assert failed["type"] == "response.failed"
    assert (failed["response"]["id"], failed["response"]["model"]) == ("resp_1", model)
    assert failed["response"]["error"]["code"] == code


async def test_a_failed_response_keeps_its_usage_but_not_its_bill(stage: Stage) -> None:
    model = stage.fresh("responses")
    response = make_response(status="failed", usage={**USAGE, "cost": 0.1}, error={"code": "x"})
    last = frame({"type": "response.failed", "response": response})
    stage.alpha.play([stream_head(), chunked(frame(CREATED, *WORDS) + last), End.FIN])
    reply = await stage.gateway.post(RESPONSES, stage.key, responses.ask(model, stream=True))
    assert read_events(reply.body)[-1]["response"]["usage"] == USAGE


async def test_a_translated_stream_that_fails_tells_what_is_charged(stage: Stage) -> None:
    model = stage.fresh("plain")
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    told = [chunk(role()), chunk(text("Hello"), usage=usage)]
    stage.alpha.play([stream_head(), chunked(events(*told)), End.FIN])
    reply = await stage.gateway.post(RESPONSES, stage.key, responses.ask(model, stream=True))
    charged = read_events(reply.body)[-1]["response"]["usage"]
    row = await stage.settled(reply)
    assert (charged["input_tokens"], charged["output_tokens"]) == (row.input, row.output) == (5, 7)


async def test_a_failure_before_the_output_may_be_tried_again(stage: Stage) -> None:
    """Nothing was delivered, so nothing is charged."""
    stage.alpha.play([stream_head(), chunked(frame(CREATED)), End.FIN])
    ask_again = responses.ask(stage.fresh("responses"), stream=True)
    reply = await stage.gateway.post(RESPONSES, stage.key, ask_again)
    failed = read_events(reply.body)[-1]
    assert failed["response"]["error"]["code"] == "server_error"
    row = await stage.settled(reply)
    assert row.cost_nano == 0


async def test_counting_is_passed_on_or_estimated_and_free(stage: Stage) -> None:
    count = {"object": "response.input_tokens", "input_tokens": 42}
    stage.alpha.play(json_reply(count))
    body = {"model": stage.fresh("responses"), "input": "Hi"}
    reply = await stage.gateway.post(COUNT, stage.key, body | {"store": False})
    assert (reply.status, reply.json) == (200, count)
    assert stage.books.request(reply.request_id) is None
    assert (stage.alpha.last.target, stage.alpha.last.json) == (
        COUNT,
        body | {"model": UPSTREAM_NAME},
    )
    body["model"] = stage.fresh("plain")
    reply = await stage.gateway.post(COUNT, stage.key, body)
    estimated = estimate_sent(dumps(body))
    assert reply.json == {"object": "response.input_tokens", "input_tokens": estimated}
    assert reply.headers["x-gateway-estimated"] == "true"
