"""The chat API over plain HTTP: replies, streams, and what passes through."""

from __future__ import annotations

import asyncio
import json

import pytest

from tests.support import messages
from tests.support.chat import Used, read_stream, say, split_events
from tests.support.config import UPSTREAM_NAME
from tests.support.process import CHAT, MESSAGES
from tests.support.replies import (
    chunk,
    chunked,
    completion,
    dumps,
    http,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    stream_chunks,
    text_chunks,
)
from tests.support.rows import each_row
from tests.support.stage import Stage


async def test_json_reply_is_the_upstreams_under_our_name(stage: Stage) -> None:
    """A vendor's own fields stay."""
    model = stage.fresh("plain")
    value = completion("Hallo, Wölt", system_fingerprint="fp_1", vendor={"a": [1, None]})
    stage.alpha.play(json_reply(value))
    reply = await stage.chat(say(model))
    assert reply.headers["content-type"].startswith("application/json")
    assert reply.json == value | {"model": model}
    assert int(reply.headers["content-length"]) == len(reply.body)


async def test_upstream_gets_its_own_name_key_and_path(stage: Stage) -> None:
    model = stage.fresh("plain")
    body = say(model, "Grüße 🎉", temperature=0.5, stop=["a"], seed=7, reasoning={"effort": "low"})
    stage.alpha.play(json_reply(completion()))
    await stage.chat(body, headers={"X-Custom": "1", "Cookie": "a=b", "User-Agent": "me"})
    sent = stage.alpha.last
    assert (sent.method, sent.target) == ("POST", "/v1/chat/completions")
    assert sent.json == body | {"model": UPSTREAM_NAME}
    assert sent.headers["authorization"] == f"Bearer {stage.secret}"
    assert sent.headers["content-type"] == "application/json"
    assert sent.headers["accept-encoding"] == "identity"
    assert not {"x-custom", "cookie", "x-api-key"} & set(sent.headers)


async def test_headers_of_the_upstream_stay_there(stage: Stage) -> None:
    """Headers pass by an allow-list, not a deny-list."""
    headers = {
        "Set-Cookie": "session=upstream",
        "Server": "nginx/upstream",
        "X-Internal-Key": stage.secret,
        "x-request-id": "theirs",
        "openai-organization": "our-organisation",
    }
    stage.alpha.play([http(dumps(completion()), headers=headers)])
    reply = await stage.chat(say(stage.fresh("plain")))
    assert not {"set-cookie", "x-internal-key", "openai-organization"} & set(reply.headers)
    assert "upstream" not in reply.headers.get("server", "")
    assert reply.request_id != "theirs"


async def test_request_ids_are_ours_and_differ(stage: Stage) -> None:
    stage.alpha.always(json_reply(completion()))
    model = stage.fresh("plain")
    one, two = [
        await stage.chat(say(model), headers={"x-request-id": "callers-own"}) for _ in range(2)
    ]
    assert len({one.request_id, two.request_id, "callers-own"}) == 3


async def test_one_connection_serves_many_requests(stage: Stage) -> None:
    """JSON, a stream and an error on the same keep-alive connection."""
    model = stage.fresh("plain")
    stage.alpha.play(json_reply(completion()), sse_reply(stream_chunks(["a"])))
    statuses = []
    async with stage.gateway.connect() as call:
        for body in (say(model), say(model, stream=True), say("none")):
            data = json.dumps(body).encode()
            head = (
                f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n"
                f"Content-Type: application/json\r\nAuthorization: Bearer {stage.key}\r\n\r\n"
            )
            await call.send(head.encode() + data)
            call.status = 0
            reply = await call.read_all()
            statuses.append(reply.status)
    assert statuses == [200, 200, 400]


async def test_comments_of_the_upstream_pass_between_events(stage: Stage) -> None:
    model = stage.fresh("plain")
    first, *rest = stream_chunks(["Hi"])
    stage.alpha.play(sse_reply([b": OPENROUTER PROCESSING\n\n", first, b": wait\n\n", *rest]))
    reply = await stage.chat(say(model, stream=True))
    assert read_stream(reply.body, model).text == "Hi"
    assert b": wait\n\n" in reply.body


async def test_large_stream_to_a_slow_reader_is_held_back(stage: Stage) -> None:
    """Back-pressure: the gateway reads no 60 MB that the caller does not read."""
    model = stage.fresh("abort")
    piece = chunked(sse(chunk({"content": "x" * 60_000})))
    stage.alpha.play([*sse_start(text_chunks([], finish=None)), *[piece] * 1000])
    async with stage.chatting(say(model, stream=True)) as call:
        await call.read_head()
        exchange = await stage.alpha.wait_for(1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(exchange.played.wait(), 0.5)
        call.reset()
    await asyncio.wait_for(exchange.closed.wait(), 2)


async def test_head_and_unknown_versions(stage: Stage) -> None:
    headers = {"anthropic-version": "3000-01-01", "x-api-key": stage.key}
    assert (await stage.gateway.ask("GET", "/v1/models", headers=headers)).status == 200


async def test_what_a_provider_wants_passes_and_what_a_model_refuses_does_not(stage: Stage) -> None:
    """`pass_headers` and `leave_out`, between equal dialects and across them."""
    model = stage.fresh("effort")
    for path, body in (
        (CHAT, say(model, temperature=0.5, top_p=0.5)),
        (MESSAGES, messages.ask(model, temperature=0.5, top_p=0.5)),
    ):
        stage.alpha.play(json_reply(completion("Hi.")))
        headers = {"x-title": "Team", "x-other": "a"}
        reply = await stage.gateway.post(path, stage.key, body, headers=headers)
        assert reply.status == 200
        sent = stage.alpha.last
        assert (sent.headers["x-title"], "x-other" in sent.headers) == ("Team", False)
        assert (sent.json["top_p"], "temperature" in sent.json) == (0.5, False)
    stage.alpha.play(json_reply(completion("Hi.")))
    await stage.gateway.post(CHAT, stage.key, say(stage.fresh("plain")), headers={"x-title": "a"})
    assert "x-title" not in stage.alpha.last.headers


@each_row("mib", [1, 5])
async def test_event_of_a_mebibyte_and_more_arrives_whole(stage: Stage, mib: int) -> None:
    """One line of several MiB, then a normal end."""
    model = stage.fresh("plain")
    long = "0123456789abcdef" * (mib * 2**16)
    stage.alpha.play(sse_reply(stream_chunks(["a", long, "z"])))
    reply = await stage.chat(say(model, stream=True))
    chunks = [json.loads(event) for event in split_events(reply.body)[:-1]]
    said = [one["delta"].get("content", "") for chunk in chunks for one in chunk["choices"]]
    assert "".join(said) == f"a{long}z"
    assert split_events(reply.body)[-1] == b"[DONE]"
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano
