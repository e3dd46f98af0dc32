"""The body of a request: its type, size and framing on raw sockets."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import json

from tests.support.chat import check_error, check_messages_error, say
from tests.support.client import Reply, request
from tests.support.config import MAX_BODY_MB
from tests.support.embeddings import EMBEDDINGS
from tests.support.process import CHAT, COUNT_TOKENS, MESSAGES
from tests.support.replies import chunked, completion, json_reply
from tests.support.rows import each_row
from tests.support.stage import Stage

MODEL = "plain/0"
GOOD = json.dumps(say(MODEL)).encode()
JSON_TYPE = {"Content-Type": "application/json"}


async def test_too_large_is_refused_at_its_declaration(stage: Stage) -> None:
    """Refused before any byte of the body came."""
    headers = JSON_TYPE | {"Authorization": f"Bearer {stage.key}", "Content-Length": str(10**10)}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", CHAT, headers))
        reply = await call.read_all()
        check_error(reply, 413, "request_too_large")
        await call.read_to_close()
    await stage.check_log(reply)


async def test_too_large_is_refused_when_it_is_not_declared(stage: Stage) -> None:
    """Refused one byte beyond the limit, in chunks."""
    size = MAX_BODY_MB * 2**20 + 1
    head = request("POST", CHAT, JSON_TYPE | {
        "Authorization": f"Bearer {stage.key}", "Transfer-Encoding": "chunked"
    })  # fmt: skip
    async with stage.gateway.connect() as call:
        await call.send(head + b"%x\r\n" % size + b" " * size + b"\r\n0\r\n\r\n")
        check_error(await call.read_all(), 413, "request_too_large")


BAD_CHUNKS = {
    "no size": b"zz\r\n",
    "a negative size": b"-5\r\n",
    "no line end behind a chunk": b"5\r\nhelloworld",
    "a size beyond all": b"f" * 40 + b"\r\n",
}


async def send_bad_chunk(stage: Stage, path: str, bad: bytes) -> Reply:
    """Send a body whose second chunk is bad; return the reply, after which the connection ends."""
    headers = JSON_TYPE | {"x-api-key": stage.key, "Transfer-Encoding": "chunked"}
    async with stage.gateway.connect() as call:
        await call.send(request("POST", path, headers) + chunked(GOOD[:20]))
        await asyncio.sleep(0.1)  # so that the body has begun; nothing tells
        await call.send(bad)
        reply = await call.read_all()
        assert await call.read_to_close() == b""
    return reply


async def test_chunks_framed_wrongly_are_a_400_at_once(stage: Stage) -> None:
    """The reply comes at once. The cases run together, as each connection lingers for 2 s."""
    cases = list(itertools.product((CHAT, MESSAGES, COUNT_TOKENS, EMBEDDINGS), BAD_CHUNKS.values()))
    for reply in await asyncio.gather(*(send_bad_chunk(stage, *case) for case in cases)):
        if "request_id" in reply.json:
            check_messages_error(reply, 400, "invalid_request_error")
        else:
            check_error(reply, 400, None)
        await stage.check_log(reply)
    assert stage.alpha.connections == 0


async def test_largest_body_passes(stage: Stage) -> None:
    body = json.dumps(say(stage.fresh("plain"))).encode()
    stage.alpha.play(json_reply(completion()))
    padded = body + b" " * (MAX_BODY_MB * 2**20 - len(body))
    assert (await stage.chat(padded)).status == 200


ENCODINGS = ["gzip", "deflate", "br", "zstd", "gzip, gzip, gzip", "x-unknown"]


@each_row("encoding", ENCODINGS)
async def test_encoded_body_is_a_415(stage: Stage, encoding: str) -> None:
    """A decompression bomb is never unpacked."""
    body = gzip.compress(GOOD + b" " * 2**20)
    reply = await stage.chat(body, headers={"Content-Encoding": encoding})
    check_error(reply, 415, "unsupported_media_type")
    await stage.check_log(reply)


async def test_body_that_only_claims_to_be_encoded_is_a_415(stage: Stage) -> None:
    reply = await stage.chat(GOOD, headers={"Content-Encoding": "gzip"})
    check_error(reply, 415, "unsupported_media_type")


@each_row(
    "kind",
    [
        None,
        "text/plain",
        "multipart/form-data; boundary=x",
        "application/x-www-form-urlencoded",
        "",
    ],
)
async def test_other_content_types_are_a_415(stage: Stage, kind: str | None) -> None:
    """A form of another site cannot send JSON, and other content is not guessed at."""
    headers = [] if kind is None else [("Content-Type", kind)]
    reply = await stage.gateway.ask("POST", CHAT, key=stage.key, headers=headers, body=GOOD)
    check_error(reply, 415, "unsupported_media_type")
    await stage.check_log(reply)


@each_row(
    "headers",
    [
        {"Content-Type": "application/json; charset=utf-7"},
        {"Content-Type": "Application/JSON"},
        {"Content-Type": "application/vnd.api+json"},
        {"Content-Type": "application/json", "Content-Encoding": "identity"},
        {"Content-Type": "application/json", "Accept": "text/event-stream"},
    ],
)
async def test_json_by_other_names_passes(stage: Stage, headers: dict[str, str]) -> None:
    stage.alpha.play(json_reply(completion()))
    body = json.dumps(say(stage.fresh("plain"))).encode()
    reply = await stage.gateway.ask("POST", CHAT, key=stage.key, headers=headers, body=body)
    assert reply.status == 200, reply.body
