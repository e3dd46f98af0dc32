"""A tunnel through an HTTP proxy: CONNECT (RFC 9110 §9.3.6) on a socket that nothing else uses yet."""

from __future__ import annotations

import asyncio
import base64
import socket
from typing import Final

from yarl import URL

from gateway.upstream.http1 import BadResponse, Head, ResponseReader

_READ_BYTES: Final = 8192
"""An answer has some hundred bytes; more only take another read."""
_ALARMS: Final = {407: "the proxy refuses the user and password in `proxy`, or wants some"}


class ProxyRefused(Exception):
    """The proxy opened no tunnel."""

    alarm: str | None = None
    """A problem for the operator to fix."""


async def open_tunnel(peer: socket.socket, authority: str, proxy: URL) -> None:
    """Have the proxy connect `peer` to the host and port of `authority`. Raises ProxyRefused, OSError."""
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.user is not None:
        pair = f"{proxy.user}:{proxy.password or ''}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    await loop.sock_sendall(peer, "\r\n".join([*lines, "", ""]).encode())
    try:
        head, rest = await _read_head(peer)
    except BadResponse as error:
        raise ProxyRefused(f"the proxy's answer is malformed: {error}") from error
    if not 200 <= head.status < 300:  # noqa: PLR2004 - any 2xx opens the tunnel
        refusal = ProxyRefused(f"the proxy answers with status {head.status}")
        refusal.alarm = _ALARMS.get(head.status)
        raise refusal
    if rest:
        raise ProxyRefused("the proxy sent bytes that nobody asked for")


async def _read_head(peer: socket.socket) -> tuple[Head, bytes]:
    """Return the head of the answer and what came behind it: nothing, in a tunnel."""
    loop, reader, rest = asyncio.get_running_loop(), ResponseReader(), b""
    while reader.head is None:
        data = await loop.sock_recv(peer, _READ_BYTES)
        if not data:
            reader.feed_eof()
        rest = reader.feed(data)
    return reader.head, rest
