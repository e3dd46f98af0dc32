"""Requests to one provider, and the meaning of its failures, without its secrets."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest
from yarl import URL

from gateway.dialects.exchanges import TRANSCRIPTS
from gateway.dialects.wire.forms import Form
from gateway.errors import (
    BadRequest,
    GatewayError,
    OutOfResources,
    Overloaded,
    UpstreamError,
    UpstreamUnavailable,
)
from gateway.upstream.attempt import Attempt, CollectedBody, Ticker
from gateway.upstream.connection import STALE_SECONDS, Connection
from gateway.upstream.dial import Dialer, Pool
from gateway.upstream.forwarder import HttpForwarder, fetch, redact, rename, take_out
from gateway.upstream.resolver import Address
from tests.support.config import Places
from tests.support.records import make_provider
from tests.support.replies import completion, head, http, json_reply
from tests.support.rows import each_row
from tests.support.upstream import End, ScriptedUpstream, Wait
from tests.support.waiting import until
from tests.upstream.kit import EXCHANGE, Way


@dataclass(slots=True)
class Pooled(Way):
    """A forwarder whose connections may be idle."""

    async def open_both(self) -> int:
        """Leave two idle connections in the pool; return how many requests were sent."""
        self.scripted.play(json_reply(completion()), json_reply(completion()))
        for answer in [await self.open() for _ in range(2)]:
            await answer.deliver(CollectedBody())
            answer.close()
        assert self.scripted.connections == 2
        return len(self.scripted.exchanges)


@pytest.fixture
async def way(alpha: ScriptedUpstream, places: Places) -> AsyncIterator[Pooled]:
    provider = make_provider(
        base_url=places.urls["alpha"], first_byte_timeout=0.3, idle_timeout=0.2
    )
    yield (way := Pooled(HttpForwarder(provider), alpha))
    way.forwarder.close()


@pytest.fixture
async def ticker() -> AsyncIterator[Ticker]:
    yield (ticker := Ticker())
    ticker.close()


async def test_a_request_on_a_stale_connection_is_sent_once_more_by_a_new_one(way: Pooled) -> None:
    """Both idle connections are stale: the second attempt must not take the other one."""
    await way.open_both()
    way.scripted.play([End.RST], json_reply(completion()))
    assert await way.ask()
    assert way.scripted.connections == 3


async def test_a_request_is_never_sent_a_third_time(way: Pooled) -> None:
    before = await way.open_both()
    way.scripted.play([End.RST], [End.RST], json_reply(completion()))
    with pytest.raises(UpstreamError):
        await way.ask()
    assert len(way.scripted.exchanges) - before == 2


@pytest.mark.parametrize("ending", [End.FIN, End.RST])
async def test_a_connection_that_answered_a_byte_is_not_stale(way: Pooled, ending: End) -> None:
    """The provider may have done the work, so no other route is tried either."""
    before = await way.open_both()
    way.scripted.play([b"HTTP/1.1 2", ending], json_reply(completion()))
    with pytest.raises(UpstreamError) as failure:
        await way.ask()
    assert not failure.value.next_route
    assert len(way.scripted.exchanges) - before == 1


async def test_a_connection_that_breaks_late_is_not_stale(way: Pooled) -> None:
    """After two seconds the provider may have done the work, so nothing is sent again."""
    before, go_on = await way.open_both(), asyncio.Event()
    way.scripted.play([Wait(go_on), End.RST], json_reply(completion()))
    attempt = way.make_attempt()
    opening = way.begin(attempt)
    await until(lambda: len(way.scripted.exchanges) > before, "the request to arrive")
    connection = attempt._connection
    assert isinstance(connection, Connection)
    connection._sent_at -= STALE_SECONDS
    go_on.set()
    with pytest.raises(UpstreamError):
        await opening
    assert len(way.scripted.exchanges) - before == 1


async def test_a_request_that_met_an_idle_connection_timing_out_is_sent_once_more(
    way: Pooled,
) -> None:
    await way.open_both()
    timed_out = head(408) + b"Content-Length: 0\r\nConnection: close\r\n\r\n"
    way.scripted.play([timed_out, End.FIN], json_reply(completion()))
    assert await way.ask()
    assert way.scripted.connections == 3
    way.scripted.play([timed_out, End.FIN], [timed_out, End.FIN])
    with pytest.raises(GatewayError):
        await way.ask()


async def test_a_request_that_ends_while_it_is_sent_once_more_is_not_sent(
    way: Pooled, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = await way.open_both()
    attempt, connect = way.make_attempt(), way.forwarder._pool.connect

    async def connect_late() -> Connection:
        attempt.fail(Overloaded("The gateway is stopped."))
        return await connect()

    monkeypatch.setattr(way.forwarder._pool, "connect", connect_late)
    way.scripted.play([End.RST], json_reply(completion()))
    with pytest.raises(Overloaded):
        await way.open(attempt)
    assert len(way.scripted.exchanges) - before == 1


class Sound:
    """A recording of 32 MiB, more than sockets take at once."""

    name, content_type, size, head = "a.mp3", "audio/mpeg", 32 << 20, b""

    def __init__(self) -> None:
        self.read_bytes = 0

    async def read(self, at: int, most: int) -> bytes:
        size = min(most, self.size - at)
        self.read_bytes += size
        return bytes(size)


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
            (await forwarder.open(TRANSCRIPTS, Form(b"{}", sound), {}, attempt)).close()
        except GatewayError as error:
            return error
        return None

    def is_waiting() -> bool:
        is_same = bool(sound.read_bytes) and sound.read_bytes == before[-1]
        before.append(sound.read_bytes)
        return is_same

    before, notes = [0], list[str]()
    async with await asyncio.start_server(refuse, "127.0.0.1", 0, limit=1024) as server:
        port = server.sockets[0].getsockname()[1]
        provider = make_provider(base_url=f"http://127.0.0.1:{port}/v1")
        forwarder = HttpForwarder(provider)
        attempt = Attempt(provider, on_refused=lambda: notes.append("refused"))
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
    assert notes == ([] if error is None else ["refused"])


async def test_a_refusal_is_known_before_its_text_and_the_first_error_ends_it(way: Pooled) -> None:
    way.scripted.play([head(500) + b"Content-Length: 100\r\n\r\n", End.HANG])
    notes: list[str] = []

    def end() -> None:
        notes.append("refused")
        attempt.fail(Overloaded("The gateway is stopped."))
        attempt.fail(UpstreamError("late"))

    attempt = Attempt(way.forwarder.provider, lambda: notes.append("sent"), end)
    with pytest.raises(Overloaded):
        await way.open(attempt)
    assert notes == ["sent", "refused"]


async def test_a_request_goes_through_the_proxy_and_its_refusal_is_the_next_routes_turn(
    way: Pooled, ticker: Ticker, places: Places
) -> None:
    """The scripted server plays the proxy, and behind its 200 the provider."""
    proxy = places.urls["alpha"].removesuffix("/v1").replace("//", "//user:canary@")
    provider = replace(way.forwarder.provider, proxy=proxy, base_url="http://provider.test/v1")
    forwarder = HttpForwarder(provider)
    way.scripted.play([b"HTTP/1.1 200 Go on\r\n\r\n"], json_reply(completion()))
    assert await fetch(forwarder, EXCHANGE, b"{}", {}, ticker)
    tunnel, asked = way.scripted.exchanges[-2:]
    assert (tunnel.method, tunnel.target) == ("CONNECT", "provider.test:80")
    assert (asked.target, asked.headers["host"]) == ("/v1/chat/completions", "provider.test")
    assert "proxy-authorization" not in asked.headers
    forwarder.close()

    way.scripted.play([b"HTTP/1.1 407 Who?\r\n\r\n"])
    with pytest.raises(UpstreamUnavailable) as refusal:
        await fetch(forwarder, EXCHANGE, b"{}", {}, ticker)
    error = refusal.value
    assert (error.next_route, error.blame) == (True, "provider")
    assert error.cause == "connect: the proxy answers with status 407"
    assert "user and password" in (error.alarm or "")
    assert "canary" not in f"{error} {error.cause} {error.alarm} {provider!r}"


async def test_nothing_at_all_is_a_reply_only_where_a_type_says_what_it_is(way: Pooled) -> None:
    way.scripted.play([http(b"")], [http(b"", content_type="text/plain")])
    assert await way.ask() == b""
    with pytest.raises(UpstreamError, match="neither events nor JSON"):
        await way.ask()


async def test_a_lack_of_our_own_is_no_failure_of_the_provider(way: Pooled, ticker: Ticker) -> None:
    def fail(_host: str, _port: int) -> Sequence[Address]:
        raise OSError(errno.EMFILE, "M")

    forwarder = HttpForwarder(way.forwarder.provider)
    forwarder._pool = Pool(Dialer(URL("http://provider.test"), 5.0, ask=fail))
    with pytest.raises(OutOfResources) as failure:
        await fetch(forwarder, EXCHANGE, b"{}", {}, ticker)
    assert failure.value.next_route
    assert failure.value.cause == "not tried: this machine: Too many open files"


@pytest.mark.parametrize(
    ("base_url", "host"),
    [("http://a.test/v1", "a.test"), ("https://A.test:443", "a.test"), ("http://a.test:81", "a.test:81"),
     ("http://[::1]:8000/v1", "[::1]:8000"), ("http://xn--bcher-kva.test", "xn--bcher-kva.test"),
     ("http://b\xfccher.test", "xn--bcher-kva.test")],
)  # fmt: skip
async def test_host_is_as_a_server_expects_it(base_url: str, host: str, way: Pooled) -> None:
    """In ASCII, without the scheme's own port, IPv6 in brackets (RFC 9112 §3.2)."""
    forwarder = HttpForwarder(replace(way.forwarder.provider, base_url=base_url))
    written = forwarder._write_head(EXCHANGE.upstream, "/chat", forwarder.keys[0], {})
    forwarder.close()
    assert f"\r\nHost: {host}\r\n".encode() in written


async def test_a_shutdown_while_connecting_sends_nothing(
    way: Pooled, ticker: Ticker, monkeypatch: pytest.MonkeyPatch
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
    sent: list[bool] = []
    attempt = way.make_attempt(on_sent=lambda: sent.append(True))
    ticker.add(attempt)
    opening = way.begin(attempt)
    await connecting.wait()
    ticker.stop_all(Overloaded("The gateway is stopped."))
    go_on.set()
    with pytest.raises(Overloaded):
        await opening
    ticker.remove(attempt)
    assert sent == []
    assert way.scripted.exchanges == []
    assert pool._idle == {}
    assert not opened[0].usable


def test_a_body_is_collected_up_to_its_limit() -> None:
    body = CollectedBody(5)
    assert body.receive(b"abc")
    assert body.receive(b"de")
    assert body.take() == b"abcde"
    with pytest.raises(UpstreamError, match="too large"):
        body.receive(b"f")


def test_a_key_is_taken_out_wherever_the_provider_echoes_it() -> None:
    error = BadRequest("Bad key sk-a.b in sk-a.b!", param="sk-a.b", code="sk-a.b")
    error.cause = error.provider_code = "sk-a.b"
    redact(error, ("sk-a.b",))
    assert error.message == "Bad key [redacted] in [redacted]!"
    assert {error.param, error.code, error.cause, error.provider_code} == {"[redacted]"}


@each_row("secrets", [("sk-a", "sk-a-b"), ("sk-a-b", "sk-a")])
def test_of_a_key_that_begins_with_another_nothing_is_left(secrets: tuple[str, ...]) -> None:
    error = BadRequest("Bad keys sk-a-b, sk-a.")
    redact(error, secrets)
    assert error.message == take_out("Bad keys sk-a-b, sk-a.", secrets)
    assert error.message == "Bad keys [redacted], [redacted]."


def test_without_a_key_nothing_is_taken_out() -> None:
    error = BadRequest("No key.")
    redact(error, ("",))
    assert error.message == "No key."


@each_row(
    ("said", "told"),
    [
        ("The model `dep` is busy.", "The model `ours` is busy."),
        ("dep: dep", "ours: ours"),
        ("depth of my-dep and dep-2, a/dep", "depth of my-dep and dep-2, a/dep"),
    ],
)
def test_a_model_is_renamed_but_not_inside_a_longer_word(said: str, told: str) -> None:
    error = BadRequest(said)
    rename(error, "dep", "ours")
    assert error.message == told


def test_a_name_is_no_pattern() -> None:
    error = BadRequest("The models a.b and axb.")
    rename(error, "a.b", r"\1")
    assert error.message == r"The models \1 and axb."
