"""Make connections to one provider, perhaps through an HTTP proxy.

The race of addresses is our own: uvloop's `create_connection` has no `happy_eyeballs_delay`, and asyncio's
looks names up in the shared threads, which one name server that hangs would fill. aiohappyeyeballs leaves 37 objects
in a cycle behind each connection whose first address fails, such as to `localhost` without IPv6.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import logging
import os
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from itertools import chain, zip_longest
from typing import Final, TypeVar

from yarl import URL

from gateway.base.deadlines import limit_seconds
from gateway.base.errors import GatewayError, OutOfResources, UpstreamError, UpstreamUnavailable
from gateway.base.tls import describe_tls
from gateway.upstream.http1 import BadResponse, ResponseReader
from gateway.upstream.resolver import Address, LookUp, Resolver, look_up

log = logging.getLogger("gateway.dial")

STAGGER_SECONDS: Final = 0.25
"""The head start of each address over the next (RFC 8305 §5)."""
KEEPALIVE_SECONDS: Final = 60
"""Idle time before the kernel's probes, which show when a NAT has dropped the flow. The default of
Linux is two hours."""
LOG_SECONDS: Final = 60.0
"""How often a lack on this machine is logged: while it lasts, every new connection fails."""
OWN_ERRNOS: Final = frozenset(
    {errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EADDRNOTAVAIL, socket.EAI_MEMORY}
)
"""A lack of descriptors, memory or ports on this machine."""
_OPTIONS: Final = (
    (socket.IPPROTO_TCP, socket.TCP_NODELAY, 1),
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    (socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS),
    (socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, KEEPALIVE_SECONDS // 4),
)

P = TypeVar("P", bound=asyncio.Protocol)


MAX_CONTEXTS: Final = 16
"""Contexts that are kept for further providers, as each takes 2 MiB of certificates."""


@lru_cache(MAX_CONTEXTS)
def make_tls(authorities: str = "") -> ssl.SSLContext:
    """Return the context that trusts the system's certificates and these, in PEM."""
    context = ssl.create_default_context()
    if authorities:
        context.load_verify_locations(cadata=authorities)
        # As curl does: an authority may be an intermediate one, and older ones lack what RFC 5280 requires.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    return context


class Dialer:
    """Makes connections to one origin, each within `seconds`, through `proxy` if there is one."""

    def __init__(
        self,
        url: URL,
        seconds: float,
        *,
        proxy: URL | None = None,
        authorities: str = "",
        ask: LookUp = look_up,
    ) -> None:
        """`authorities`: certificates that are trusted beside the system's, in PEM."""
        self._url = url
        self._seconds = seconds
        self._proxy = proxy
        self._tls = make_tls(authorities) if url.scheme == "https" else None
        # With a proxy, only the proxy's name is looked up here; the proxy looks up the provider's.
        first = proxy or url
        self._resolver = Resolver(first.raw_host or "", first.port or 0, ask)
        self._log_due = 0.0

    async def dial(self, make_protocol: Callable[[], P]) -> P:
        """Return the protocol of a new connection.

        Raises UpstreamUnavailable, OutOfResources, or UpstreamError if TLS failed.
        """
        try:
            async with limit_seconds(self._seconds):
                peer = await self._connect()
                return await self._hand_over(peer, make_protocol)
        except TimeoutError as error:
            # The host may have moved while its old address drops packets.
            self._resolver.doubt()
            raise _fail("no connection in time") from error

    async def _connect(self) -> socket.socket:
        """Return a socket that reaches the origin, directly or through the proxy."""
        try:
            addresses = await self._resolver.resolve()
        except (OSError, ValueError) as error:  # ValueError: a host that DNS cannot have
            raise self._explain(_find_lack() or error, "unknown host: ") from error
        try:
            peer = await race(addresses)
        except OSError as error:
            self._resolver.doubt()
            raise self._explain(error) from error
        if self._proxy is not None:
            await self._tunnel(peer, self._proxy)
        return peer

    async def _tunnel(self, peer: socket.socket, proxy: URL) -> None:
        try:
            await open_tunnel(peer, f"{self._url.host_subcomponent}:{self._url.port}", proxy)
        # A cancelled dial, too, has to close it: no transport owns the socket yet.
        except BaseException as error:
            peer.close()
            if isinstance(error, OSError):
                raise _fail(f"the proxy: {_describe(error)}") from error
            raise

    async def _hand_over(self, peer: socket.socket, make_protocol: Callable[[], P]) -> P:
        """Give a connected socket to a transport, which closes it whatever happens."""
        loop, host = asyncio.get_running_loop(), self._url.raw_host if self._tls else None
        try:
            _, protocol = await loop.create_connection(
                make_protocol, sock=peer, ssl=self._tls, server_hostname=host
            )
        except OSError as error:
            # The socket is connected, so with TLS only the handshake can fail (SSLError is an OSError).
            if self._tls is None:
                raise _fail(_describe(error)) from error
            reason = describe_tls(error) or _describe(error)
            raise UpstreamError(
                "The upstream provider could not be reached securely.",
                next_route=True,
                blame="provider",
                alarm=f"TLS with the provider failed: {reason}",
                cause=f"TLS: {reason}",
            ) from error
        return protocol

    def _explain(self, error: Exception, prefix: str = "") -> GatewayError:
        """Return what to raise for an error of resolving or connecting."""
        if not _is_own(error):
            return _fail(prefix + _describe(error))
        now = asyncio.get_running_loop().time()
        if now >= self._log_due:
            self._log_due = now + LOG_SECONDS
            log.error(
                "no connection to %s, for want of this machine's own resources: %s",
                self._url.host_port_subcomponent,
                _describe(error),
            )
        lack = OutOfResources("The gateway cannot make connections. Try again shortly.")
        lack.cause = f"not tried: this machine: {_describe(error)}"
        return lack


def _fail(reason: str, alarm: str | None = None) -> UpstreamUnavailable:
    """Return the error of a provider that refuses connections, is unknown, too slow or behind a proxy that refuses."""
    return UpstreamUnavailable(
        "The upstream provider cannot be reached.",
        next_route=True,
        blame="provider",
        alarm=alarm,
        cause=f"connect: {reason}",
    )


async def race(addresses: Sequence[Address]) -> socket.socket:
    """Return a socket connected to the address that answers first, and close the others.

    Raises the OSError of the first address; if that failed for a lack on this machine, the first other
    error.
    """
    if len(addresses) == 1:  # without a task: 46 instead of 80 µs
        return await _open_socket(*addresses[0])
    loop, waiting = asyncio.get_running_loop(), deque(interleave(addresses))
    tries: list[asyncio.Task[socket.socket]] = []
    pending: set[asyncio.Task[socket.socket]] = set()
    errors: list[BaseException] = []
    try:
        while waiting or pending:
            # A try that fails ends the wait, so the next one begins at once (RFC 8305 §5).
            if waiting:
                tries.append(loop.create_task(_open_socket(*waiting.popleft())))
                pending.add(tries[-1])
            seconds = STAGGER_SECONDS if waiting else None
            done, pending = await asyncio.wait(
                pending, timeout=seconds, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                if (error := task.exception()) is None:
                    # The winner's socket must not be closed below.
                    tries.remove(task)
                    return task.result()
                errors.append(error)
    finally:
        # If two tries succeed in the same turn, the second socket has no owner to close it.
        for task in tries:
            task.cancel()
            task.add_done_callback(_close)
    # A lack on this machine says nothing about the provider, so any other error is preferred.
    raise next((error for error in errors if not _is_own(error)), errors[0])


def interleave(addresses: Sequence[Address]) -> Iterable[Address]:
    """Order addresses so that families alternate, the first address's family first (RFC 8305 §4)."""
    first = [one for one in addresses if one[0] == addresses[0][0]]
    second = [one for one in addresses if one[0] != addresses[0][0]]
    return filter(None, chain.from_iterable(zip_longest(first, second)))


async def _open_socket(family: int, address: tuple[object, ...]) -> socket.socket:
    peer = socket.socket(family, socket.SOCK_STREAM)
    try:
        peer.setblocking(False)
        for option in _OPTIONS:
            peer.setsockopt(*option)
        try:
            peer.connect(address)  # done at once on the loopback
        except BlockingIOError:
            await asyncio.get_running_loop().sock_connect(peer, address)
    # A try is cancelled when another address has won the race.
    except BaseException:
        peer.close()
        raise
    return peer


def _close(task: asyncio.Task[socket.socket]) -> None:
    """Close the socket of a try that lost the race."""
    # Asking for the exception also keeps asyncio from logging it as never retrieved.
    if not task.cancelled() and task.exception() is None:
        task.result().close()


def _is_own(error: BaseException) -> bool:
    return getattr(error, "errno", None) in OWN_ERRNOS


def _find_lack() -> OSError | None:
    """Return the error of making a socket, None if it works: the resolver's error does not say."""
    try:
        socket.socket().close()
    except OSError as error:
        return error
    return None


def _describe(error: Exception) -> str:
    number = getattr(error, "errno", None)
    if isinstance(error, socket.gaierror):
        return str(error.strerror)
    return os.strerror(number) if number else str(error) or type(error).__name__


_READ_BYTES: Final = 8192
"""An answer has some hundred bytes; more only take another read."""
_ALARMS: Final = {407: "the proxy refuses the user and password in `proxy`, or wants some"}


async def open_tunnel(peer: socket.socket, authority: str, proxy: URL) -> None:
    """Have the proxy connect `peer` to the host and port of `authority`. Raises UpstreamUnavailable, OSError."""
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {authority} HTTP/1.1", f"Host: {authority}"]
    if proxy.user is not None:
        pair = f"{proxy.user}:{proxy.password or ''}"
        lines.append(f"Proxy-Authorization: Basic {base64.b64encode(pair.encode()).decode()}")
    await loop.sock_sendall(peer, "\r\n".join([*lines, "", ""]).encode())
    reader, rest = ResponseReader(), b""
    try:
        while reader.head is None:
            data = await loop.sock_recv(peer, _READ_BYTES)
            if not data:
                reader.feed_eof()
            rest = reader.feed(data)
    except BadResponse as error:
        raise _fail(f"the proxy's answer is malformed: {error}") from error
    status = reader.head.status
    if not 200 <= status < 300:  # noqa: PLR2004 - any 2xx opens the tunnel
        raise _fail(f"the proxy answers with status {status}", _ALARMS.get(status))
    # In a tunnel the client speaks first, so these bytes cannot be the provider's.
    if rest or reader.leftover:
        raise _fail("the proxy sent bytes that nobody asked for")
