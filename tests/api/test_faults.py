"""Faults of providers: before the first byte, on each route, in the log."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import pytest

from tests.support.chat import check_error, say
from tests.support.config import BRISK_SECONDS, UPSTREAM_NAME
from tests.support.replies import (
    chunked,
    completion,
    dumps,
    error_reply,
    head,
    http,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    stream_chunks,
    stream_head,
    text_chunks,
)
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.upstream import Drip, End, Script
from tests.support.waiting import until

BODY = dumps(completion())
HTML = b"<html><body>Welcome to the hotel wifi</body></html>"
JSON_HEAD = head(200) + b"Content-Length: 1000\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Fault:
    """A script (made with the upstream's secret) and the reply that the caller gets."""

    make: Callable[[str], Script]
    status: int
    code: str | None


def fault(script: Script, status: int = 502, code: str | None = "upstream_error") -> Fault:
    return Fault(lambda _: script, status, code)


def html(status: int) -> Script:
    return [http(HTML, status, content_type="text/html")]


def drip(data: bytes) -> Script:
    pieces = [data[start : start + 1] for start in range(len(data))]
    return [Drip(pieces, BRISK_SECONDS / 8), End.HANG]


TIMEOUT = "upstream_timeout"
FAULTS: dict[str, Fault] = {
    "accepts and closes": fault([End.FIN]),
    "reset before headers": fault([End.RST]),
    "hang before the first byte": fault([End.HANG], 502, TIMEOUT),
    "headers drip": fault(drip(head(200)), 502, TIMEOUT),
    "partial status line": fault([b"HTTP/1.1 2", End.FIN]),
    "partial headers, closed": fault([b"HTTP/1.1 200 OK\r\nContent-Ty", End.FIN]),
    "partial headers, stalled": fault([b"HTTP/1.1 200 OK\r\nContent-Ty", End.HANG], 502, TIMEOUT),
    "garbage": fault([b"\x00\x01\x02 what is this\r\n\r\n", End.FIN]),
    "tls record": fault([b"\x15\x03\x03\x00\x02\x02\x28", End.FIN]),
    "http/2 frames": fault([b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" * 3, End.FIN]),
    "status 99": fault([http(BODY, 99)]),
    "status 999": fault([http(BODY, 999)]),
    "103 and silence": fault([b"HTTP/1.1 103 Early Hints\r\n\r\n", End.HANG], 502, TIMEOUT),
    "status 204": fault([b"HTTP/1.1 204 No Content\r\n\r\n"]),
    "status 304": fault([b"HTTP/1.1 304 Not Modified\r\n\r\n"]),
    "empty 200": fault([http(b"")]),
    "truncated json, closed": fault([JSON_HEAD + BODY[:60], End.FIN]),
    "truncated json, reset": fault([JSON_HEAD + BODY[:60], End.RST]),
    "nothing of the body": fault([JSON_HEAD, End.FIN]),
    "json stalls": fault([JSON_HEAD + BODY[:60], End.HANG], 502, TIMEOUT),
    "close-delimited json, cut": fault([http(BODY[:60], framing="close"), End.FIN]),
    "bad chunk size": fault(
        [head(200) + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY, End.FIN]
    ),
    "chunk longer than said": fault(
        [head(200) + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + BODY, End.FIN]
    ),
    "gzip unasked": fault([http(gzip.compress(BODY), headers={"Content-Encoding": "gzip"})]),
    "gzip claimed": fault([http(BODY, headers={"Content-Encoding": "gzip"})]),
    "captive portal": fault(html(200)),
    "html 502": fault(html(502)),
    "html 520": fault(html(520)),
    "html 503": fault(html(503), 503, "upstream_unavailable"),
    "200 with an error": fault(json_reply({"error": {"message": "no capacity", "code": 500}})),
    "status 404": fault(error_reply(404, "no such model", code="model_not_found")),
    "status 401": Fault(
        lambda secret: error_reply(401, f"Incorrect key: {secret}"), 502, "upstream_error"
    ),
    "status 403": Fault(
        lambda secret: error_reply(403, f"{secret} may not"), 502, "upstream_error"
    ),
    "status 402": Fault(
        lambda secret: error_reply(402, f"top up {secret}"), 503, "upstream_unavailable"
    ),
    "insufficient quota": fault(
        error_reply(429, "quota", kind="insufficient_quota", code="insufficient_quota"),
        503,
        "upstream_unavailable",
    ),
    "status 429": fault(error_reply(429, "slow down"), 503, "upstream_unavailable"),
    "status 408": fault(error_reply(408)),
    "status 409": fault(error_reply(409)),
    "status 500": Fault(
        lambda secret: error_reply(500, f"crash with {secret}"), 502, "upstream_error"
    ),
    "status 502": fault(error_reply(502)),
    "status 503": fault(error_reply(503), 503, "upstream_unavailable"),
    "status 504": fault(error_reply(504)),
    "status 529": fault(error_reply(529), 503, "upstream_unavailable"),
}
JSON_ONLY: dict[str, Fault] = {
    "stream for a json request": fault(sse_reply(stream_chunks(["Hello"]))),
    "not json": fault(
        [http(b'{"id": "chatcmpl-1", "choices": [', content_type="application/json")]
    ),
}
STREAM_ONLY: dict[str, Fault] = {
    "close-delimited stream, nothing in it": fault([stream_head(framing="close"), End.FIN]),
    "bad chunk size before any event": fault([stream_head(), b"zz\r\n", End.FIN]),
    "no event and no last chunk": fault([stream_head(), End.FIN]),
    "reset before any event": fault([stream_head(), End.RST]),
    "silence after the headers": fault([stream_head(), End.HANG], 502, TIMEOUT),
    "gzip stream": fault(
        [
            stream_head(headers={"Content-Encoding": "gzip"}),
            chunked(gzip.compress(sse(completion()))),
            b"0\r\n\r\n",
        ]
    ),
    "the first event is an error": fault(
        sse_reply([{"error": {"message": "overloaded", "type": "server_error", "code": 500}}])
    ),
}
CASES = [
    *((name, one, False) for name, one in (FAULTS | JSON_ONLY).items()),
    *((name, one, True) for name, one in (FAULTS | STREAM_ONLY).items()),
]


@pytest.mark.parametrize(
    ("one", "stream"),
    [
        pytest.param(
            one,
            stream,
            id=f"{name}-{'sse' if stream else 'json'}",
            marks=[pytest.mark.slow] if one.code == TIMEOUT and name != "headers drip" else [],
        )
        for name, one, stream in CASES
    ],
)
async def test_fault_before_the_first_byte_is_an_error_and_free(
    stage: Stage, one: Fault, *, stream: bool
) -> None:
    stage.alpha.always(one.make(stage.secret))
    reply = await stage.chat(say(stage.fresh("brisk"), stream=stream))
    message = check_error(reply, one.status, one.code)
    assert "<" not in message
    assert UPSTREAM_NAME not in message
    assert ("x-should-retry" in reply.headers) == (one.code == TIMEOUT)
    assert await stage.charge_nano(reply) == 0
    assert len(stage.alpha.exchanges) == 1


UNREACHABLE = {
    "connection refused": ("refused", 503, "upstream_unavailable"),
    "name not found": ("nameless", 503, "upstream_unavailable"),
    "syn black hole": ("black-hole", 503, "upstream_unavailable"),
    "tls to a plain port": ("tls", 502, "upstream_error"),
}


@each_row("name", UNREACHABLE)
async def test_unreachable_upstream_is_said(stage: Stage, name: str) -> None:
    """Its connect time-out ends the wait: the system's own would be longer than a test may take."""
    kind, status, code = UNREACHABLE[name]
    reply = await stage.chat(say(stage.fresh(kind)))
    check_error(reply, status, code)
    assert await stage.charge_nano(reply) == 0
    assert stage.alpha.exchanges == [], "never a plain request where TLS was meant"


async def test_endless_interim_replies_end_at_the_deadline(stage: Stage) -> None:
    """Each 103 shows that the upstream works, but none of them is a reply (RFC 8297)."""
    stage.alpha.play([Drip([b"HTTP/1.1 103 Early Hints\r\n\r\n"], 0.05, forever=True)])
    reply = await stage.chat(say(stage.fresh("brisk")))
    check_error(reply, 502, TIMEOUT)
    assert reply.headers["x-should-retry"] == "false"
    assert await stage.charge_nano(reply) == 0


@each_row("status", [302, 307, 308])
async def test_redirects_are_not_followed(stage: Stage, status: int) -> None:
    """An upstream cannot send the gateway's key to another host."""
    stage.alpha.play(
        [http(b"", status, headers={"Location": stage.running.places.urls["beta"] + "/sink"})]
    )
    reply = await stage.chat(say(stage.fresh("brisk")))
    check_error(reply, 502, "upstream_error")
    assert stage.beta.connections == 0
    assert await stage.charge_nano(reply) == 0


@each_row("status", [400, 413, 422])
async def test_a_rejection_is_passed_on_in_our_words_for_the_model(
    stage: Stage, status: int
) -> None:
    """The error has the upstream's message and the gateway's model name, and no key."""
    secret = stage.secret
    model = stage.fresh("brisk")
    message = f"{UPSTREAM_NAME} takes at most 5 messages (key {secret})"
    stage.alpha.play(error_reply(status, message, code="too_many_messages"))
    reply = await stage.chat(say(model))
    said = check_error(reply, 400, "too_many_messages")
    assert "takes at most 5 messages" in said
    assert model in said
    assert UPSTREAM_NAME not in said
    assert await stage.charge_nano(reply) == 0


async def test_a_message_inside_a_200_is_passed_on(stage: Stage) -> None:
    """Some providers report errors in a 200."""
    stage.alpha.play(json_reply({"error": {"message": "no capacity today", "code": 502}}))
    reply = await stage.chat(say(stage.fresh("brisk")))
    assert "no capacity today" in check_error(reply, 502, "upstream_error")


@each_row(("said", "expected"), [("7", 7), ("600", 60), (None, None)])
@each_row("status", [429, 503])
async def test_retry_after_is_passed_on_up_to_a_minute(
    stage: Stage, status: int, said: str | None, expected: int | None
) -> None:
    """The status is 503, as it is not the caller's limit; the wait is the upstream's."""
    headers = {} if said is None else {"Retry-After": said}
    stage.alpha.play(error_reply(status, headers=headers))
    reply = await stage.chat(say(stage.fresh("brisk")))
    check_error(reply, 503, "upstream_unavailable")
    if expected is not None:
        assert int(reply.headers["retry-after"]) == expected
        assert int(reply.headers["retry-after-ms"]) == expected * 1000


@each_row(
    "script",
    [
        pytest.param([http(BODY, content_type="text/plain")], id="another content type"),
        pytest.param([http(b"\n\n\n" + BODY)], id="blank lines, to keep the connection alive"),
    ],
)
async def test_what_is_odd_in_a_json_reply_is_no_fault(stage: Stage, script: Script) -> None:
    stage.alpha.play(script)
    reply = await stage.chat(say(stage.fresh("brisk")))
    assert reply.status == 200
    assert reply.json["choices"][0]["message"]["content"] == "Hello, world!"
    assert await stage.charge_nano(reply) > 0


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
