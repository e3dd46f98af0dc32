"""What aiohttp answers by itself: in a dialect, with an id, without the request's own words."""

from __future__ import annotations

from typing import Final

import pytest

from gateway.api.aiohttp_insides import HEAD_BYTES
from gateway.api.reading import choose_caller
from tests.support import client
from tests.support.chat import check_error, check_messages_error
from tests.support.rows import each_row
from tests.support.stage import Stage

SECRET: Final = b"sk-ru-not-to-be-told"
HOST: Final = b"Host: x\r\n"
KEY: Final = b"x-api-key: " + SECRET + b"\r\n"
FRAMED: Final = HOST + b"Transfer-Encoding: chunked\r\n"
LONG: Final = b"a" * 9000
MESSAGES: Final = b"POST /v1/messages?" + SECRET
CHAT: Final = b"POST /v1/chat/completions?" + SECRET

REFUSED: Final[dict[str, tuple[bytes, str]]] = {
    "not http": (b"\x00" + SECRET + b"\r\n\r\n", "not valid HTTP"),
    "tls": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", "HTTP, not HTTPS"),
    "http/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "not valid HTTP"),
    "method": (b"sk-ru-not-to-be-told / HTTP/1.1\r\n" + HOST + b"\r\n", "not valid HTTP"),
    "version": (CHAT + b" HTTP/3.9\r\n" + HOST + b"\r\n", "HTTP version"),
    "url": (b"GET http://[" + SECRET + b"/ HTTP/1.1\r\n" + HOST + b"\r\n", "not valid HTTP"),
    "no host": (CHAT + b" HTTP/1.1\r\n" + KEY + b"\r\n", "one Host"),
    "long line": (CHAT + LONG + b" HTTP/1.1\r\n" + HOST + b"\r\n", "longer than"),
    "long header": (CHAT + b" HTTP/1.1\r\nX: " + SECRET + LONG + b"\r\n\r\n", "longer than"),
    "headers": (CHAT + b" HTTP/1.1\r\n" + HOST + KEY * 200 + b"\r\n", "too many headers"),
    "name": (CHAT + b" HTTP/1.1\r\nA b: " + SECRET + b"\r\n\r\n", "not valid HTTP"),
    "length": (CHAT + b" HTTP/1.1\r\nContent-Length: " + SECRET + b"\r\n\r\n", "Content-Length"),
    "two framings": (CHAT + b" HTTP/1.1\r\n" + FRAMED + b"Content-Length: 3\r\n\r\n", "length"),
    "chunk": (CHAT + b" HTTP/1.1\r\n" + FRAMED + b"\r\nzz" + SECRET + b"\r\n", "chunked encoding"),
    "expect": (b"GET /v1/key HTTP/1.1\r\n" + HOST + b"Expect: " + SECRET + b"\r\n\r\n", "Expect"),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_a_malformed_request_gets_an_envelope_that_quotes_nothing(
    stage: Stage, name: str
) -> None:
    sent, told = REFUSED[name]
    async with client.connect(stage.gateway.port, forbidden=[SECRET]) as call:
        await call.send(sent)
        reply = await call.read_all()
        assert told in check_error(reply, 400, None)
        assert await call.read_to_close() == b""
    await stage.check_log(reply)


@pytest.mark.parametrize("target", [b"CONNECT x:443", b"OPTIONS *"])
async def test_a_target_that_is_no_path_is_unknown(stage: Stage, target: bytes) -> None:
    async with stage.gateway.connect() as call:
        await call.send(target + b" HTTP/1.1\r\n" + HOST + b"\r\n")
        check_error(await call.read_all(), 404, "unknown_url")
        assert await call.read_to_close() == b""


@pytest.mark.parametrize(
    "pieces",
    [
        (MESSAGES + b" HTTP/3.9\r\n\r\n",),
        (MESSAGES + b" HTTP/1.1\r\n", b"A b: " + SECRET + b"\r\n\r\n"),
        (b"GET /healthz HTTP/1.1\r\n" + HOST + b"\r\n", MESSAGES + b" HTTP/1.1\r\nA b:\r\n\r\n"),
    ],
)
async def test_the_dialect_is_that_of_the_path(stage: Stage, pieces: tuple[bytes, ...]) -> None:
    """Also if the head came in pieces, or on a connection that had another request."""
    async with client.connect(stage.gateway.port, forbidden=[SECRET]) as call:
        for one in pieces[:-1]:
            await call.send(one)
            if one.endswith(b"\r\n\r\n"):
                assert (await call.read_all()).status == 200
                call.status = 0
        await call.send(pieces[-1])
        check_messages_error(await call.read_all(), 400, "invalid_request_error")


@each_row(
    ("head", "dialect"),
    [
        (b"", "chat"),
        (b"GET /v1/models HTTP/1.1\r\nAnthropic-Version: 1\r\nA b: c", "messages"),
        (b"GET /v1/models HTTP/1.1\r\nA: /v1/messages\r\n", "chat"),
        (b"POST /v1/messages/count_tokens HTTP/1.1\r\n", "messages"),
        (b"POST /v1/messages_ HTTP/1.1\r\n", "chat"),
        (b"POST http://gateway.test/v1/messages HTTP/1.1\r\n", "messages"),
        (b"GET /v1/key HTTP/1.1\r\nHost: x\r\n\r\nPOST /v1/messages", "messages"),
        (b"POST /v1/responses HTTP/1.1\r\n", "responses"),
        ((b"GET /v1/messages/" + LONG)[:HEAD_BYTES], "messages"),
        (b"\xff\xfe /v1/mess\xff", "chat"),
    ],
)
def test_a_dialect_is_told_from_the_beginning_of_a_head(head: bytes, dialect: str) -> None:
    assert choose_caller(head).name == dialect
