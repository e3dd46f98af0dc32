"""The request for a tunnel, and the proxy's answers, on a pair of connected sockets."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from yarl import URL

from gateway.upstream.dial import ProxyRefused, open_tunnel

PROXY = URL("http://proxy.test:3128")


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, socket.socket]]:
    """Our end of a connection to the proxy, and the proxy's."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.setblocking(False)
        yield ours, theirs


Ends = tuple[socket.socket, socket.socket]


async def ask(ends: Ends, answer: bytes, proxy: URL = PROXY) -> bytes:
    """Have the proxy answer; return what it was asked."""
    ours, theirs = ends
    theirs.sendall(answer)
    theirs.shutdown(socket.SHUT_WR)
    await open_tunnel(ours, "api.test:443", proxy)
    return theirs.recv(4096)


async def test_the_proxy_is_asked_for_host_and_port(ends: Ends) -> None:
    asked = await ask(ends, b"HTTP/1.1 200 OK\r\n\r\n")
    assert asked == b"CONNECT api.test:443 HTTP/1.1\r\nHost: api.test:443\r\n\r\n"


async def test_the_proxy_is_told_who_asks(ends: Ends) -> None:
    asked = await ask(ends, b"HTTP/1.0 200\r\n\r\n", PROXY.with_user("me").with_password("a:b"))
    assert b"Proxy-Authorization: Basic bWU6YTpi\r\n" in asked


@pytest.mark.parametrize("status", [301, 403, 407, 502])
async def test_any_other_status_is_a_refusal(ends: Ends, status: int) -> None:
    with pytest.raises(ProxyRefused, match=f"status {status}") as caught:
        await ask(ends, b"HTTP/1.1 %d No\r\nContent-Length: 0\r\n\r\n" % status)
    assert bool(caught.value.alarm) == (status == 407), "only this is the operator's to mend"


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\n", b"SSH-2.0\r\n\r\n"])
async def test_what_is_no_answer_is_a_refusal(ends: Ends, answer: bytes) -> None:
    with pytest.raises(ProxyRefused, match="malformed"):
        await ask(ends, answer)


async def test_bytes_behind_the_answer_are_nobodys(ends: Ends) -> None:
    with pytest.raises(ProxyRefused, match="nobody asked for"):
        await ask(ends, b"HTTP/1.1 200 OK\r\n\r\nhello")
