"""Requests to one provider, and the meaning of its failures, without its secrets."""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import replace

import pytest
from yarl import URL

from gateway.base.deadlines import Ticker
from gateway.base.errors import (
    GatewayError,
    OutOfResources,
    Overloaded,
    UpstreamError,
    UpstreamUnavailable,
)
from gateway.upstream.attempt import Attempt
from gateway.upstream.connection import Connection, Pool
from gateway.upstream.dial import Dialer
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.receivers import CollectedBody
from gateway.upstream.resolver import Address
from tests.support.config import Places
from tests.support.records import make_provider
from tests.support.replies import completion, head, json_reply
from tests.support.rows import each_row
from tests.support.upstream import End, ScriptedUpstream
from tests.support.waiting import until
from tests.upstream.kit import TellingLife, Way, make_attempt


@pytest.fixture
async def way(alpha: ScriptedUpstream, places: Places) -> AsyncIterator[Way]:
    provider = make_provider(
        base_url=places.urls["alpha"], first_byte_timeout=0.3, idle_timeout=0.2
    )
    yield (way := Way(HttpForwarder(provider), alpha))
    way.forwarder.close()


@pytest.fixture
async def ticker() -> AsyncIterator[Ticker]:
    yield (ticker := Ticker())
    ticker.close()


class Sound:
    """A body of 32 MiB, more than sockets take at once."""

    content_type, size = "multipart/form-data; boundary=b", 32 << 20

    def __init__(self) -> None:
        self.read_bytes = 0

    def __len__(self) -> int:
        return self.size

    async def read_pieces(self) -> AsyncIterator[bytes]:
        while self.read_bytes < self.size:
            self.read_bytes += 1 << 17
            yield bytes(1 << 17)

    def read_json(self) -> dict[str, object]:
        return {}


@each_row("answer", [head(413) + b"Content-Length: 0\r\n\r\n", json_reply(completion())[0], b""])
async def test_a_form_is_sent_no_further_than_it_is_taken_or_an_answer_comes(answer: bytes) -> None:
    """Without an answer the provider did no work, as it has not got all: the next route is tried."""
    sound, is_stuck, is_over = Sound(), asyncio.Event(), asyncio.Event()

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await is_stuck.wait()
        writer.write(answer)
        with suppress(ConnectionError):
            while answer and await reader.read(1 << 20):
                pass
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()
        is_over.set()

    async def ask(forwarder: HttpForwarder, attempt: Attempt) -> GatewayError | None:
        try:
            await forwarder.send(attempt)
        except GatewayError as error:
            return error
        return None

    def is_waiting() -> bool:
        is_same = bool(sound.read_bytes) and sound.read_bytes == before[-1]
        before.append(sound.read_bytes)
        return is_same

    before, life = [0], TellingLife()
    async with await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1024) as server:
        port = server.sockets[0].getsockname()[1]
        provider = make_provider(base_url=f"http://127.0.0.1:{port}/v1")
        forwarder = HttpForwarder(provider)
        attempt = make_attempt(provider, body=sound, life=life)
        asking = asyncio.get_running_loop().create_task(ask(forwarder, attempt))
        await until(is_waiting, "the provider takes no more")
        is_stuck.set()
        error = await asking
        assert sound.read_bytes < sound.size
        assert forwarder._pool.take() is None, "what is half sent serves no other request"
        forwarder.close()
        await is_over.wait()
    if not answer:
        assert isinstance(error, UpstreamError)
        assert error.next_route
    else:
        assert (error is None) == answer.startswith(head(200)[:12])
    assert life.told == (["sent"] if error is None else ["sent", "declined"])


async def test_a_form_whose_early_refusal_breaks_off_is_the_next_routes_turn() -> None:
    """Also if all of it comes while the next piece of the form is waited for."""

    class Pausing(Sound):
        async def read_pieces(self) -> AsyncIterator[bytes]:
            yield b"first"
            sent = attempt.response
            assert sent is not None
            await until(lambda: sent.error is not None, "the reset")
            yield b"second"

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"first")
        writer.write(head(503) + b"Content-Length: 100\r\n\r\n{")
        await writer.drain()
        lingering = struct.pack("ii", 1, 0)  # a close resets the connection
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, lingering)
        writer.transport.abort()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        provider = make_provider(base_url=f"http://127.0.0.1:{port}/v1")
        forwarder = HttpForwarder(provider)
        attempt = make_attempt(provider, body=Pausing(), life=(life := TellingLife()))
        with pytest.raises(UpstreamError) as failure:
            await forwarder.send(attempt)
        forwarder.close()
    assert (failure.value.next_route, life.told) == (True, ["sent", "declined"])


async def test_a_refusal_is_known_before_its_text_and_the_first_error_ends_it(way: Way) -> None:
    way.scripted.play([head(500) + b"Content-Length: 100\r\n\r\n", End.HANG])

    def end() -> None:
        attempt.life.stop(Overloaded("The gateway is stopped."))
        attempt.life.stop(UpstreamError("late"))

    life = TellingLife(end)
    attempt = way.make_attempt(life=life)
    with pytest.raises(Overloaded):
        await way.forwarder.send(attempt)
    assert life.told == ["sent", "declined"]


async def test_a_refusal_whose_text_stalls_leaves_other_routes_to_be_tried(
    way: Way, ticker: Ticker
) -> None:
    way.scripted.play([head(503) + b"Content-Length: 100\r\n\r\n", End.HANG])
    attempt = way.make_attempt(clock=ticker.clock)
    ticker.add(attempt)
    with pytest.raises(UpstreamError) as refused:
        await way.forwarder.send(attempt)
    ticker.remove(attempt)
    assert refused.value.next_route
    assert attempt.life.ended_by is None


async def test_a_request_goes_through_the_proxy_and_its_refusal_is_the_next_routes_turn(
    way: Way, places: Places
) -> None:
    """The scripted server plays the proxy, and behind its 200 the provider."""
    proxy = places.urls["alpha"].removesuffix("/v1").replace("//", "//user:canary@")
    provider = replace(way.forwarder.provider, proxy=proxy, base_url="http://provider.test/v1")
    forwarder = HttpForwarder(provider)
    way.scripted.play([b"HTTP/1.1 200 Go on\r\n\r\n"], json_reply(completion()))
    assert await Way(forwarder, way.scripted).ask()
    tunnel, asked = way.scripted.exchanges[-2:]
    assert (tunnel.method, tunnel.target) == ("CONNECT", "provider.test:80")
    assert (asked.target, asked.headers["host"]) == ("/v1/chat/completions", "provider.test")
    assert "proxy-authorization" not in asked.headers
    forwarder.close()

    way.scripted.play([b"HTTP/1.1 407 Who?\r\n\r\n"])
    with pytest.raises(UpstreamUnavailable) as refusal:
        await Way(forwarder, way.scripted).ask()
    error = refusal.value
    assert (error.next_route, error.blame) == (True, "provider")
    assert error.cause == "connect: the proxy answers with status 407"
    assert "user and password" in (error.alarm or "")
    assert "canary" not in f"{error} {error.cause} {error.alarm} {provider!r}"


async def test_a_lack_of_our_own_is_no_failure_of_the_provider(way: Way) -> None:
    def fail(_host: str, _port: int) -> Sequence[Address]:
        raise OSError(errno.EMFILE, "M")

    forwarder = HttpForwarder(way.forwarder.provider)
    forwarder._pool = Pool(Dialer(URL("http://provider.test"), 5.0, ask=fail))
    with pytest.raises(OutOfResources) as failure:
        await Way(forwarder, way.scripted).ask()
    assert failure.value.next_route
    assert failure.value.cause == "not tried: this machine: Too many open files"


async def test_a_shutdown_while_connecting_sends_nothing(
    way: Way, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The connection that comes too late is closed, and kept for nobody."""
    connecting, go_on = asyncio.Event(), asyncio.Event()
    pool, opened = way.forwarder._pool, list[Connection]()
    connect = pool.connect

    async def connect_late() -> Connection:
        connecting.set()
        await go_on.wait()
        opened.append(await connect())
        return opened[0]

    monkeypatch.setattr(pool, "connect", connect_late)
    life = TellingLife()
    attempt = way.make_attempt(life=life)
    ticker.add(attempt)
    opening = way.begin(attempt)
    await connecting.wait()
    ticker.stop_all(Overloaded("The gateway is stopped."))
    go_on.set()
    with pytest.raises(Overloaded):
        await opening
    ticker.remove(attempt)
    assert life.told == []
    assert way.scripted.exchanges == []
    assert pool._idle == {}
    assert not opened[0].usable


def test_a_body_is_collected_up_to_its_limit() -> None:
    body = CollectedBody(5)
    body.receive(b"abc")
    body.receive(b"de")
    assert body.take() == b"abcde"
    with pytest.raises(UpstreamError, match="too large"):
        body.receive(b"f")
