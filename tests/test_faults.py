"""Upstreams that fail before the first byte: status, code, a charge of nothing, no secret told.

The numbers are the rows of the fault table; what a row adds to a stream that has begun is in
test_faults_midstream.py.
"""

from __future__ import annotations

import gzip
import time
from collections.abc import Callable
from dataclasses import dataclass

import pytest
from support.chat import check_error, say
from support.config import BRISK_SECONDS, TOTAL_SECONDS, UPSTREAM_NAME
from support.replies import (
    chunked,
    completion,
    dumps,
    error_reply,
    head,
    http,
    json_reply,
    sse,
    sse_reply,
    stream_chunks,
    stream_head,
)
from support.stage import Stage
from support.upstream import Drip, End, Script

BODY = dumps(completion())
HTML = b"<html><body>Welcome to the hotel wifi</body></html>"
JSON_HEAD = head(200) + b"Content-Length: 1000\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Fault:
    """A script (made with the secret the upstream was called with) and what the caller gets."""

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
    "5 accepts and closes": fault([End.FIN]),
    "6 reset before headers": fault([End.RST]),
    "8 hang before the first byte": fault([End.HANG], 502, TIMEOUT),
    "9 headers drip": fault(drip(head(200)), 502, TIMEOUT),
    "10 partial status line": fault([b"HTTP/1.1 2", End.FIN]),
    "11 partial headers, closed": fault([b"HTTP/1.1 200 OK\r\nContent-Ty", End.FIN]),
    "11 partial headers, stalled": fault(
        [b"HTTP/1.1 200 OK\r\nContent-Ty", End.HANG], 502, TIMEOUT
    ),
    "12 garbage": fault([b"\x00\x01\x02 what is this\r\n\r\n", End.FIN]),
    "12 tls record": fault([b"\x15\x03\x03\x00\x02\x02\x28", End.FIN]),
    "12 http/2 frames": fault([b"\x00\x00\x12\x04\x00\x00\x00\x00\x00" * 3, End.FIN]),
    "13 status 99": fault([http(BODY, 99)]),
    "13 status 999": fault([http(BODY, 999)]),
    "15 103 and silence": fault([b"HTTP/1.1 103 Early Hints\r\n\r\n", End.HANG], 502, TIMEOUT),
    "18 204": fault([b"HTTP/1.1 204 No Content\r\n\r\n"]),
    "18 304": fault([b"HTTP/1.1 304 Not Modified\r\n\r\n"]),
    "18 empty 200": fault([http(b"")]),
    "24 truncated json, closed": fault([JSON_HEAD + BODY[:60], End.FIN]),
    "24 truncated json, reset": fault([JSON_HEAD + BODY[:60], End.RST]),
    "24 nothing of the body": fault([JSON_HEAD, End.FIN]),
    "24 json stalls": fault([JSON_HEAD + BODY[:60], End.HANG], 502, TIMEOUT),
    "26 close-delimited json, cut": fault([http(BODY[:60], framing="close"), End.FIN]),
    "27 bad chunk size": fault(
        [head(200) + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n" + BODY, End.FIN]
    ),
    "27 chunk longer than said": fault(
        [head(200) + b"Transfer-Encoding: chunked\r\n\r\n5\r\n" + BODY, End.FIN]
    ),
    "42 gzip unasked": fault([http(gzip.compress(BODY), headers={"Content-Encoding": "gzip"})]),
    "43 gzip claimed": fault([http(BODY, headers={"Content-Encoding": "gzip"})]),
    "45 captive portal": fault(html(200)),
    "46 html 502": fault(html(502)),
    "46 html 520": fault(html(520)),
    "46 html 503": fault(html(503), 503, "upstream_unavailable"),
    "48 200 with an error": fault(json_reply({"error": {"message": "no capacity", "code": 500}})),
    "50b 404": fault(error_reply(404, "no such model", code="model_not_found")),
    "51 401": Fault(
        lambda secret: error_reply(401, f"Incorrect key: {secret}"), 502, "upstream_error"
    ),
    "51 403": Fault(lambda secret: error_reply(403, f"{secret} may not"), 502, "upstream_error"),
    "52 402": Fault(
        lambda secret: error_reply(402, f"top up {secret}"), 503, "upstream_unavailable"
    ),
    "52 insufficient quota": fault(
        error_reply(429, "quota", kind="insufficient_quota", code="insufficient_quota"),
        503,
        "upstream_unavailable",
    ),
    "53 429": fault(error_reply(429, "slow down"), 503, "upstream_unavailable"),
    "54 408": fault(error_reply(408)),
    "54 409": fault(error_reply(409)),
    "54 500": Fault(lambda secret: error_reply(500, f"crash with {secret}"), 502, "upstream_error"),
    "54 502": fault(error_reply(502)),
    "54 503": fault(error_reply(503), 503, "upstream_unavailable"),
    "54 504": fault(error_reply(504)),
    "54 529": fault(error_reply(529), 503, "upstream_unavailable"),
}
JSON_ONLY: dict[str, Fault] = {
    "47 stream for a json request": fault(sse_reply(stream_chunks(["Hello"]))),
    "50 not json": fault(
        [http(b'{"id": "chatcmpl-1", "choices": [', content_type="application/json")]
    ),
}
STREAM_ONLY: dict[str, Fault] = {
    "26 close-delimited stream, nothing in it": fault([stream_head(framing="close"), End.FIN]),
    "28 bad chunk size before any event": fault([stream_head(), b"zz\r\n", End.FIN]),
    "29 no event and no last chunk": fault([stream_head(), End.FIN]),
    "30 reset before any event": fault([stream_head(), End.RST]),
    "31 silence after the headers": fault([stream_head(), End.HANG], 502, TIMEOUT),
    "42 gzip stream": fault(
        [
            stream_head(headers={"Content-Encoding": "gzip"}),
            chunked(gzip.compress(sse(completion()))),
            b"0\r\n\r\n",
        ]
    ),
    "49 the first event is an error": fault(
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
        pytest.param(one, stream, id=f"{name}-{'sse' if stream else 'json'}")
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
    "1 connection refused": ("refused", 503, "upstream_unavailable"),
    "2 name not found": ("nameless", 503, "upstream_unavailable"),
    "3 syn black hole": ("black-hole", 503, "upstream_unavailable"),
    "4 tls to a plain port": ("tls", 502, "upstream_error"),
}


@pytest.mark.parametrize("name", UNREACHABLE)
async def test_unreachable_upstream_is_said_within_the_connect_time(
    stage: Stage, name: str
) -> None:
    kind, status, code = UNREACHABLE[name]
    started = time.monotonic()
    reply = await stage.chat(say(stage.fresh(kind)))
    assert time.monotonic() - started < BRISK_SECONDS + 1
    check_error(reply, status, code)
    assert await stage.charge_nano(reply) == 0
    assert stage.alpha.exchanges == [], "never a plain request where TLS was meant"


async def test_endless_interim_replies_end_at_the_deadline(stage: Stage) -> None:
    """Row 15: each 103 is a sign of life, and none of them an answer."""
    stage.alpha.play([Drip([b"HTTP/1.1 103 Early Hints\r\n\r\n"], 0.05, forever=True)])
    started = time.monotonic()
    reply = await stage.chat(say(stage.fresh("brisk")))
    assert time.monotonic() - started < TOTAL_SECONDS + 1
    check_error(reply, 502, TIMEOUT)
    assert reply.headers["x-should-retry"] == "false"
    assert await stage.charge_nano(reply) == 0


@pytest.mark.parametrize("status", [302, 307, 308])
async def test_redirects_are_not_followed(stage: Stage, status: int) -> None:
    """Row 17: an upstream cannot send our key elsewhere."""
    stage.alpha.play(
        [http(b"", status, headers={"Location": stage.running.places.urls["beta"] + "/sink"})]
    )
    reply = await stage.chat(say(stage.fresh("brisk")))
    check_error(reply, 502, "upstream_error")
    assert stage.beta.connections == 0
    assert await stage.charge_nano(reply) == 0


@pytest.mark.parametrize("status", [400, 413, 422])
async def test_a_rejection_is_passed_on_in_our_words_for_the_model(
    stage: Stage, status: int
) -> None:
    """Row 50: the caller's own fault, with the upstream's message, its model and no key of ours."""
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
    """Row 48: some providers say what is wrong inside a 200."""
    stage.alpha.play(json_reply({"error": {"message": "no capacity today", "code": 502}}))
    reply = await stage.chat(say(stage.fresh("brisk")))
    assert "no capacity today" in check_error(reply, 502, "upstream_error")


@pytest.mark.parametrize(("said", "expected"), [("7", 7), ("600", 60), (None, None)])
@pytest.mark.parametrize("status", [429, 503])
async def test_retry_after_is_passed_on_up_to_a_minute(
    stage: Stage, status: int, said: str | None, expected: int | None
) -> None:
    """Row 53: it is not the caller's limit, so a 503, but the time to wait is the upstream's."""
    headers = {} if said is None else {"Retry-After": said}
    stage.alpha.play(error_reply(status, headers=headers))
    reply = await stage.chat(say(stage.fresh("brisk")))
    check_error(reply, 503, "upstream_unavailable")
    if expected is not None:
        assert int(reply.headers["retry-after"]) == expected
        assert int(reply.headers["retry-after-ms"]) == expected * 1000


async def test_json_of_another_content_type_is_a_reply(stage: Stage) -> None:
    """Row 47: valid is valid."""
    stage.alpha.play([http(BODY, content_type="text/plain")])
    reply = await stage.chat(say(stage.fresh("brisk")))
    assert reply.status == 200
    assert reply.json["choices"][0]["message"]["content"] == "Hello, world!"
    assert await stage.charge_nano(reply) > 0


async def test_blank_lines_before_json_are_no_fault(stage: Stage) -> None:
    """Some providers keep the connection alive with them."""
    stage.alpha.play([http(b"\n\n\n" + BODY)])
    reply = await stage.chat(say(stage.fresh("brisk")))
    assert reply.status == 200
    assert reply.json["choices"][0]["finish_reason"] == "stop"
