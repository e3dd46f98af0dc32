"""New connections, on every loop: addresses raced, losers closed, the time to connect over all."""

from __future__ import annotations

import asyncio
import errno
import functools
import inspect
import os
import resource
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import pytest
from yarl import URL

from gateway.base.errors import GatewayError, OutOfResources, UpstreamError, UpstreamUnavailable
from gateway.upstream.dial import OWN_ERRNOS, Dialer, interleave
from gateway.upstream.resolver import Address
from tests.support.loops import LOOPS, run_on
from tests.support.waiting import until

SECONDS: Final = 30.0
SHORT_SECONDS: Final = 0.3
"""A time to connect that a test waits for."""
V4: Final = socket.AF_INET
URLS: Final = {kind: URL(f"{kind}://provider.test/v1") for kind in ("http", "https")}

pytestmark = pytest.mark.parametrize("loop", LOOPS)


@dataclass(slots=True)
class Places:
    """Addresses that fail, each in its own way."""

    refused: Address
    black_hole: Address


@pytest.fixture
def at(listeners: dict[str, socket.socket]) -> Places:
    return Places(
        (V4, listeners["refused"].getsockname()), (V4, listeners["black-hole"].getsockname())
    )


@dataclass(slots=True)
class Heard(asyncio.Protocol):
    """A protocol that keeps what it hears."""

    heard: bytes = b""
    transport: asyncio.Transport | None = None
    lost: asyncio.Event = field(default_factory=asyncio.Event)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment] # uvloop's is no asyncio.Transport

    def data_received(self, data: bytes) -> None:
        self.heard += data

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the protocol's signature
        self.lost.set()

    async def close(self) -> None:
        assert self.transport is not None
        self.transport.close()
        await asyncio.wait_for(self.lost.wait(), SECONDS)


@dataclass(slots=True)
class Server:
    """Says `said` to everybody, HTTP once it is asked, and keeps what it hears."""

    said: bytes = b"hello"
    heard: bytes = b""
    hangs_up: bool = False
    address: Address = (V4, ())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.said.startswith(b"HTTP"):
            self.heard += await reader.read(1 << 16)
        writer.write(self.said)
        try:
            while not self.hangs_up and (data := await reader.read(1 << 16)):
                self.heard += data
        except ConnectionError:
            pass
        finally:
            writer.close()


def on_each_loop(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """Play a test with a server on a new loop; it must leave no socket open."""
    names = inspect.signature(test).parameters

    def play(loop: str, **fixtures: Any) -> None:
        async def act() -> None:
            server = Server()
            async with asyncio.timeout(SECONDS):
                listener = await asyncio.start_server(server.serve, "127.0.0.1", 0)
                server.address = (V4, listener.sockets[0].getsockname())
                before = count_sockets()
                try:
                    await test(**fixtures, **({"server": server} if "server" in names else {}))
                    await until(lambda: count_sockets() == before, "all sockets to be closed")
                finally:
                    listener.close()
                    await listener.wait_closed()

        run_on(loop, act())

    made: Any = functools.wraps(test)(play)
    kept = [one for name, one in names.items() if name != "server"]
    loop = inspect.Parameter("loop", inspect.Parameter.KEYWORD_ONLY)
    made.__signature__ = inspect.Signature([*kept, loop])
    del made.__wrapped__  # pytest would take the test for a coroutine
    return cast("Callable[..., None]", made)


def count_sockets() -> int:
    found = 0
    for one in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):
            found += str(one.readlink()).startswith("socket:")
    return found


def make_dialer(
    *addresses: Address, kind: str = "http", seconds: float = SECONDS, proxy: URL | None = None
) -> Dialer:
    return Dialer(URLS[kind], seconds, proxy=proxy, ask=lambda _host, _port: addresses)


async def find_failure(dialer: Dialer) -> GatewayError:
    with pytest.raises((UpstreamError, OutOfResources)) as failure:
        await dialer.dial(Heard)
    assert failure.value.next_route
    return failure.value


# ---- the race ------------------------------------------------------------------------------------


RACES: Final = (
    # A black hole does not hold up the address behind it.
    ("black-hole black-hole server", SECONDS, ""),
    # The next address is tried as soon as one fails: with a head start each, the last one would wait 50 s.
    ("refused " * 200 + "server", SECONDS, ""),
    # The first failure is told where no address works.
    ("refused odd refused", SECONDS, "connect: Connection refused"),
    # The time to connect is over addresses.
    ("black-hole", SHORT_SECONDS, "connect: no connection in time"),
)


@pytest.mark.parametrize(("addresses", "seconds", "told"), RACES)
@on_each_loop
async def test_addresses_race_and_losers_are_closed(
    server: Server, at: Places, addresses: str, seconds: float, told: str
) -> None:
    known = {"server": server.address, "odd": (9999, ())}
    known |= {"refused": at.refused, "black-hole": at.black_hole}
    dialer = make_dialer(*(known[one] for one in addresses.split()), seconds=seconds)
    if told:
        failure = await find_failure(dialer)
        assert type(failure) is UpstreamUnavailable
        assert failure.cause.startswith(told)
        return
    before = count_sockets()
    heard = await dialer.dial(Heard)
    await until(lambda: heard.heard == b"hello", "the server's word")
    await until(lambda: count_sockets() == before + 2, "the losers to be closed")  # both ends
    await heard.close()


@on_each_loop
async def test_a_race_may_be_cancelled_at_any_step(server: Server) -> None:
    """Also between the moment a connection is there and the moment it is handed over."""
    for steps in range(12):
        dialer = make_dialer(server.address, server.address)
        racing = asyncio.get_running_loop().create_task(dialer.dial(Heard))
        for _ in range(steps):
            await asyncio.sleep(0)
        racing.cancel()
        await asyncio.wait((racing,))
        if not racing.cancelled():
            await racing.result().close()


def test_families_take_turns(loop: str) -> None:
    del loop
    v6 = socket.AF_INET6
    found = [(v6, ("a",)), (v6, ("b",)), (v6, ("c",)), (V4, ("d",))]
    assert [one[1][0] for one in interleave(found)] == ["a", "d", "b", "c"]
    assert [one[1][0] for one in interleave(found[::-1])] == ["d", "c", "b", "a"]


# ---- the time to connect -------------------------------------------------------------------------


@on_each_loop
async def test_the_time_to_connect_is_over_names() -> None:
    awake = threading.Event()

    def hang(_host: str, _port: int) -> Sequence[Address]:
        awake.wait(SECONDS)
        return ()

    failure = await find_failure(Dialer(URLS["http"], SHORT_SECONDS, ask=hang))
    assert isinstance(failure, UpstreamUnavailable)
    awake.set()


@on_each_loop
async def test_a_provider_that_moved_is_found_by_the_next_request(
    server: Server, at: Places
) -> None:
    found = [[at.refused], [at.black_hole], [server.address]]
    dialer = Dialer(URLS["http"], SHORT_SECONDS, ask=lambda _host, _port: found.pop(0))
    for _ in range(2):
        assert isinstance(await find_failure(dialer), UpstreamUnavailable)
    dialer._seconds = SECONDS  # a busy machine may take more than the short time
    await (await dialer.dial(Heard)).close()


# ---- our own faults ------------------------------------------------------------------------------


@contextmanager
def no_descriptor() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@on_each_loop
async def test_a_lack_of_descriptors_is_our_own_fault_and_logged_once(
    at: Places, caplog: pytest.LogCaptureFixture
) -> None:
    """Also where a resolver cannot ask for lack of one, and says only that it failed."""

    def fail(_host: str, _port: int) -> Sequence[Address]:
        raise socket.gaierror(socket.EAI_AGAIN, "Temporary failure in name resolution")

    failing, unresolved = make_dialer(at.refused), Dialer(URLS["http"], SECONDS, ask=fail)
    assert isinstance(await find_failure(failing), UpstreamUnavailable)
    with no_descriptor():
        found = [await find_failure(one) for one in (failing, failing, failing, unresolved)]
    lack = f"not tried: this machine: {os.strerror(errno.EMFILE)}"
    assert [(type(one), one.cause) for one in found] == [(OutOfResources, lack)] * 4
    failure = await find_failure(unresolved)
    assert failure.cause == "connect: unknown host: Temporary failure in name resolution"
    logged = [one.message for one in caplog.records if one.name == "gateway.dial"]
    assert len(logged) == 2  # one for each provider
    assert all("provider.test" in one and "Too many open files" in one for one in logged)


@on_each_loop
async def test_an_address_that_fails_by_itself_counts_before_a_lack_of_our_own(at: Places) -> None:
    """An IPv6 address on a machine that has no IPv6, say: the IPv4 address tells more."""
    with no_descriptor():
        failure = await find_failure(make_dialer(at.refused, (9999, ())))
    assert type(failure) is UpstreamUnavailable
    assert os.strerror(errno.EAFNOSUPPORT) in failure.cause


@on_each_loop
async def test_whose_fault_an_error_is() -> None:
    for number in (*sorted(OWN_ERRNOS), errno.ECONNREFUSED, errno.ENETUNREACH):

        def fail(_host: str, _port: int, number: int = number) -> Sequence[Address]:
            raise OSError(number, "M")

        failure = await find_failure(Dialer(URLS["http"], SECONDS, ask=fail))
        assert isinstance(failure, OutOfResources) == (number in OWN_ERRNOS)


# ---- proxies -------------------------------------------------------------------------------------

PROXY: Final = URL("http://us%40er:pass%3Aword@proxy.test:3128")
OPEN: Final = b"HTTP/1.1 200 Connection established\r\nContent-Length: 5\r\n\r\n"


@pytest.mark.parametrize("proxy", [PROXY, PROXY.with_user(None)])
@pytest.mark.parametrize("kind", URLS)
@on_each_loop
async def test_a_proxy_is_asked_for_the_provider_and_told_who_asks(
    server: Server, kind: str, proxy: URL
) -> None:
    """Behind its 200, which has no body, come the provider's bytes: here what is no TLS."""
    server.said, asked = OPEN, list[tuple[str, int]]()

    def ask(host: str, port: int) -> Sequence[Address]:
        asked.append((host, port))
        return [server.address]

    dialer = Dialer(URLS[kind], SECONDS, proxy=proxy, ask=ask)
    if kind == "http":
        await (await dialer.dial(Heard)).close()
    else:
        dialing = asyncio.get_running_loop().create_task(dialer.dial(Heard))
        await until(lambda: b"\x16\x03" in server.heard, "TLS within the tunnel")
        dialing.cancel()
        await asyncio.wait((dialing,))
    port = URLS[kind].port
    head, _, rest = server.heard.partition(b"\r\n\r\n")
    assert head.decode().split("\r\n") == [
        f"CONNECT provider.test:{port} HTTP/1.1",
        f"Host: provider.test:{port}",
        *["Proxy-Authorization: Basic dXNAZXI6cGFzczp3b3Jk"] * (proxy is PROXY),
    ]
    assert (b"provider.test" in rest) == (kind == "https")
    assert asked == [("proxy.test", 3128)]


HANDSHAKES: Final = (
    # Who accepts and never says a word, as a provider and as a proxy.
    ("https", None, b"", ""),
    ("https", URL("http://proxy.test:3128"), b"", ""),
    ("https", None, b"HTTP/1.1 400 Bad Request\r\n\r\n", "UpstreamError TLS: it speaks plain http, not TLS (wrong version number)"),
    # A proxy that opens no tunnel.
    ("http", PROXY, b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "UpstreamUnavailable connect: the proxy answers with status 407"),
    ("http", PROXY, b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 2\r\n\r\nno", "UpstreamUnavailable connect: the proxy answers with status 502"),
    ("http", PROXY, b"SSH-2.0-x\r\n\r\n", "UpstreamUnavailable connect: the proxy's answer is malformed: its status line is malformed"),
    ("http", PROXY, OPEN + b"hello", "UpstreamUnavailable connect: the proxy sent bytes that nobody asked for"),
    ("http", PROXY, OPEN.replace(b"5", b"0") + b"hello", "UpstreamUnavailable connect: the proxy sent bytes that nobody asked for"),
    ("http", PROXY, b"HTTP/1.1 200", "UpstreamUnavailable connect: the proxy"),
)  # fmt: skip
"""The provider, the proxy, what the server says, and the failure. The last one hangs up behind it."""


@pytest.mark.parametrize(("kind", "proxy", "said", "told"), HANDSHAKES)
@on_each_loop
async def test_no_connection_comes_of_a_handshake_that_fails(
    server: Server, kind: str, proxy: URL | None, said: bytes, told: str
) -> None:
    server.said, server.hangs_up = said, said == b"HTTP/1.1 200"
    seconds = SECONDS if said else SHORT_SECONDS
    dialer = make_dialer(server.address, kind=kind, seconds=seconds, proxy=proxy)
    failure = await find_failure(dialer)
    assert f"{type(failure).__name__} {failure.cause}".startswith(told)
    is_insecure = type(failure) is UpstreamError
    assert (getattr(failure, "alarm", None) is not None) == (b"407" in said or is_insecure)
    if is_insecure:  # the name that the certificate is for
        await until(lambda: b"provider.test" in server.heard, "the hello")


# ---- the response --------------------------------------------------------------------------------
