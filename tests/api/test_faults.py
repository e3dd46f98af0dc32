"""Faults of providers: before the first byte, on each route, in the log."""

from __future__ import annotations

import json
from typing import Final

from tests.support.chat import check_error, say
from tests.support.config import UPSTREAM_NAME
from tests.support.replies import (
    completion,
    dumps,
    error_reply,
    head,
    http,
    json_reply,
    sse_start,
    text_chunks,
)
from tests.support.stage import Stage
from tests.support.upstream import Drip, End, Script
from tests.support.waiting import until

TIMEOUT = "upstream_timeout"


async def test_endless_interim_replies_end_at_the_deadline(stage: Stage) -> None:
    """Each 103 shows that the upstream works, but none of them is a reply (RFC 8297)."""
    stage.alpha.play([Drip([b"HTTP/1.1 103 Early Hints\r\n\r\n"], 0.05, forever=True)])
    reply = await stage.chat(say(stage.fresh("brisk")))
    check_error(reply, 502, TIMEOUT)
    assert reply.headers["x-should-retry"] == "false"
    assert await stage.charge_nano(reply) == 0


SAID: Final = "the provider's words, perhaps with a prompt"
TYPED: Final = {"error": {"message": SAID, "type": "overloaded_error"}}
CAUSES: Final[dict[str, tuple[Script, str]]] = {
    "500": (error_reply(500, SAID), "status 500"),
    "401": (error_reply(401, SAID), "status 401 invalid_request_error"),
    "529": ([http(dumps(TYPED), 529)], "status 529 overloaded_error"),
    "429": (json_reply({"error": {"message": SAID, "code": SAID}}, 429), "status 429"),
    "400": (json_reply({"error": {"message": SAID}}, 400), "status 400"),
    "silence": ([End.HANG], "timeout: first_byte_timeout"),
    "a stop": ([head() + b"Content-Length: 9\r\n\r\n{", End.HANG], "timeout: idle_timeout"),
    "no HTTP": ([b"SSH-2.0-x\r\n\r\n"], "broke off: its status line is malformed"),
    "a reset": ([head() + b"Content-Length: 9\r\n\r\n{", End.RST], "broke off: "),
    "HTML": ([http(b"<html>", content_type="text/html")], "200, but neither events nor JSON"),
    "no JSON": ([http(SAID.encode())], "200, but an unusable reply"),
}


async def read_line(stage: Stage, request_id: str) -> str:
    def find() -> list[str]:
        return [one for one in stage.gateway.log.splitlines() if f" {request_id} status=" in one]

    await until(find, "the log line")
    return find()[0]


def read_failed(line: str) -> str:
    """Return the value of `failed`, which has spaces and so stands in quotes."""
    _, _, rest = line.partition(" failed=")
    value, _ = json.JSONDecoder().raw_decode(rest)
    assert isinstance(value, str)
    return value


async def test_a_stream_that_stops_is_logged_with_its_cause(stage: Stage) -> None:
    stage.alpha.play([*sse_start(text_chunks(["hi"], finish=None)), End.HANG])
    reply = await stage.chat(say(stage.fresh("brisk"), stream=True))
    assert reply.status == 200
    assert ": timeout: idle" in read_failed(await read_line(stage, reply.request_id))


async def test_a_refused_connection_is_logged_and_so_is_each_route(stage: Stage) -> None:
    model = stage.fresh("refused-pair")
    stage.beta.play(error_reply(500))
    reply = await stage.chat(say(model))
    route = model.replace("/", "-")
    assert read_failed(await read_line(stage, reply.request_id)) == (
        f"{route}-refused/{UPSTREAM_NAME}: connect: Connection refused;"
        f" {route}-beta/{UPSTREAM_NAME}: status 500 invalid_request_error"
    )
    stage.beta.play(json_reply(completion()))
    reply = await stage.chat(say(model))
    assert reply.status == 200
    assert ": connect: " in read_failed(await read_line(stage, reply.request_id))


async def test_a_request_without_failures_has_none_in_its_line(stage: Stage) -> None:
    stage.alpha.play(json_reply(completion()))
    reply = await stage.chat(say(stage.fresh("plain")))
    assert " failed=" not in await read_line(stage, reply.request_id)
