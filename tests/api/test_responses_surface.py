"""The Responses API over plain HTTP, over providers that speak it: replies, streams, errors, counts."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.dialects.chat.kit import chunk, events, role, text
from tests.dialects.responses.kit import (
    call,
    delta,
    frame,
    make_response,
    message,
    read_events,
)
from tests.support.config import UPSTREAM_NAME
from tests.support.process import RESPONSES
from tests.support.replies import chunked, error_reply, json_reply, sse_reply, stream_head
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.upstream import End

Json = dict[str, Any]

COUNT: Final = f"{RESPONSES}/input_tokens"
USAGE: Final = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
CREATED: Final = {"type": "response.created", "response": make_response(status="in_progress")}
COMPLETED: Final = {"type": "response.completed", "response": make_response(usage=USAGE)}
WORDS: Final = [delta(f"word{at}", obfuscation="x" * at) for at in range(9)]


def ask(model: str, **fields: Any) -> Json:
    return {"model": model, "input": "Hi", **fields}


async def test_a_reply_is_the_providers_under_our_name_and_is_charged(stage: Stage) -> None:
    model = stage.fresh("responses")
    value = make_response(message("Grüße 🎉"), call(), usage=USAGE, vendor={"model": "kept"})
    stage.alpha.play(json_reply(value))
    body = ask(model, instructions="Be brief.", vendor=1)
    reply = await stage.gateway.post(RESPONSES, stage.key, body)
    assert (reply.status, reply.json) == (200, value | {"model": model})
    sent = stage.alpha.last
    added = {"store": False, "include": ["reasoning.encrypted_content"]}
    assert (sent.target, sent.json) == (RESPONSES, body | {"model": UPSTREAM_NAME, **added})
    assert sent.headers["authorization"] == f"Bearer {stage.secret}"
    row = stage.books.request(reply.request_id)
    assert row is not None
    assert (row.input, row.output, row.estimated) == (11, 7, False)


async def test_a_stream_passes_and_is_charged_as_its_last_event_says(stage: Stage) -> None:
    model = stage.fresh("responses")
    body = frame(CREATED, *WORDS, COMPLETED)
    stage.alpha.play(sse_reply([body], done=False))
    reply = await stage.gateway.post(RESPONSES, stage.key, ask(model, stream=True))
    assert reply.body == body.replace(b'"theirs"', b'"%b"' % model.encode())
    row = stage.books.request(reply.request_id)
    assert row is not None
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
    body = ask(model, stream=True)
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
    reply = await stage.gateway.post(RESPONSES, stage.key, ask(model, stream=True))
    assert read_events(reply.body)[-1]["response"]["usage"] == USAGE


async def test_a_translated_stream_that_fails_tells_what_is_charged(stage: Stage) -> None:
    model = stage.fresh("plain")
    usage = {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12}
    told = [chunk(role()), chunk(text("Hello"), usage=usage)]
    stage.alpha.play([stream_head(), chunked(events(*told)), End.FIN])
    reply = await stage.gateway.post(RESPONSES, stage.key, ask(model, stream=True))
    charged = read_events(reply.body)[-1]["response"]["usage"]
    row = stage.books.request(reply.request_id)
    assert row is not None
    assert (charged["input_tokens"], charged["output_tokens"]) == (row.input, row.output) == (5, 7)


async def test_a_failure_before_the_output_may_be_tried_again(stage: Stage) -> None:
    """Nothing was delivered, so nothing is charged."""
    stage.alpha.play([stream_head(), chunked(frame(CREATED)), End.FIN])
    ask_again = ask(stage.fresh("responses"), stream=True)
    reply = await stage.gateway.post(RESPONSES, stage.key, ask_again)
    failed = read_events(reply.body)[-1]
    assert failed["response"]["error"]["code"] == "server_error"
    row = stage.books.request(reply.request_id)
    assert row is not None
    assert row.cost_nano == 0


async def test_errors_are_in_openais_envelope(stage: Stage) -> None:
    model = stage.fresh("responses")
    reply = await stage.gateway.post(RESPONSES, stage.key, ask(model, previous_response_id="r"))
    assert (reply.status, reply.json["error"]["param"]) == (400, "previous_response_id")
    empty = await stage.gateway.post(RESPONSES, stage.callers["empty"].key, ask(model))
    assert (empty.status, empty.json["error"]["code"]) == (402, "insufficient_quota")
    stage.alpha.play(error_reply(500))
    failed = await stage.gateway.post(RESPONSES, stage.key, ask(model))
    assert (failed.status, failed.json["error"]["type"]) == (502, "server_error")


@each_row("path", ["resp_1", "resp_1/cancel", "compact", "input_tokens/x"])
async def test_paths_beneath_are_unknown(stage: Stage, path: str) -> None:
    reply = await stage.gateway.post(f"{RESPONSES}/{path}", stage.key, {})
    assert (reply.status, reply.json["error"]["code"]) == (404, "unknown_url")


async def test_counting_is_passed_on_or_estimated_and_free(stage: Stage) -> None:
    count = {"object": "response.input_tokens", "input_tokens": 42}
    stage.alpha.play(json_reply(count))
    model = stage.fresh("responses")
    reply = await stage.gateway.post(COUNT, stage.key, ask(model, store=False))
    assert (reply.status, reply.json) == (200, count)
    assert stage.books.request(reply.request_id) is None
    assert (stage.alpha.last.target, stage.alpha.last.json) == (COUNT, ask(UPSTREAM_NAME))
    model = stage.fresh("plain")
    reply = await stage.gateway.post(COUNT, stage.key, ask(model))
    estimated = -(-len(json.dumps(ask(model), separators=(",", ":"))) // 4)
    assert reply.json == {"object": "response.input_tokens", "input_tokens": estimated}
    assert reply.headers["x-gateway-estimated"] == "true"
