"""The upstream side: one forwarder per provider, its connections, and what its failures mean.

Behind `Forwarder` and `Answer` is aiohttp's client today; nothing outside this file knows. Every
foreign exception becomes an `UpstreamError` here, so that no `except` further in can blame the
provider for what the caller did.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Final, Protocol

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ClientRequest
from aiohttp.connector import Connection
from aiohttp.tracing import Trace
from multidict import CIMultiDict
from yarl import URL

from gateway.config import Provider
from gateway.dialects.base import Exchange
from gateway.dialects.upstream_errors import map_status
from gateway.errors import GatewayError, UpstreamError, UpstreamTimeout, UpstreamUnavailable

MAX_REPLY_BYTES: Final = 64 << 20
"""A JSON reply is held back whole until it is charged; beyond this it is a broken upstream."""
MAX_ERROR_BYTES: Final = 64 << 10
ERROR_BODY_SECONDS: Final = 5.0
"""How long the text of an error is waited for: the status alone decides."""
IDLE_CONNECTION_SECONDS: Final = 15.0
"""Below what providers keep: a connection they close first costs a retry."""
READ_BUFFER_BYTES: Final = 64 << 10


def _do_nothing() -> None:
    return


@dataclass(slots=True)
class Attempt:
    """What is known of one try at one route, failed or not."""

    on_connect: Callable[[], None] = _do_nothing
    """Called when there is a connection: the time for the first byte runs from then."""
    connected: bool = False
    """A connection was there, so the request may have been read, and the work done."""
    may_be_stale: Callable[[], bool] = lambda: False
    """The connection had served before and answered no byte: the provider had closed it."""


class Receiver(Protocol):
    """Where a stream's bytes go."""

    def receive(self, data: bytes) -> bool:
        """Take bytes; False asks to wait for `ready` before more come."""

    async def ready(self) -> None:
        """Return when more may come."""


class Answer(Protocol):
    """A 200 from an upstream whose body is not read yet."""

    async def deliver(self, receiver: Receiver) -> None:
        """Hand over the body until its clean end. Raises UpstreamError."""

    def close(self) -> None:
        """Give the connection up (or back, when the body was read to its end)."""


class Forwarder(Protocol):
    """One provider."""

    provider: Provider

    async def fetch(self, exchange: Exchange, body: bytes) -> bytes:
        """Send the request and read the whole JSON reply, within the provider's time-outs.

        Raises UpstreamError, or BadRequest when the upstream found fault with the request.
        """

    async def open(self, exchange: Exchange, body: bytes, attempt: Attempt) -> Answer:
        """Send the request and read the head of the answer. The caller keeps the time."""

    def redact(self, error: GatewayError) -> GatewayError:
        """The error without this provider's key, whatever the upstream echoed."""

    async def close(self) -> None: ...


_attempt: ContextVar[Attempt] = ContextVar("attempt")


class _Protocol(ResponseHandler):
    """aiohttp's connection, which also knows whether anything was answered."""

    used = False
    answered = False

    def data_received(self, data: bytes) -> None:
        self.answered = True
        super().data_received(data)

    def connection_lost(self, exc: BaseException | None) -> None:
        payload = self._payload
        super().connection_lost(exc)
        # After a malformed chunk aiohttp 3.14 closes the connection and leaves the reader waiting.
        if payload is not None and not payload.is_eof() and payload.exception() is None:
            payload.set_exception(aiohttp.ClientPayloadError("the body is malformed"))

    def is_stale(self) -> bool:
        return self.used and not self.answered


class _Connector(aiohttp.TCPConnector):
    """Tells the attempt under way about its connection."""

    def __init__(self) -> None:
        super().__init__(limit=0, keepalive_timeout=IDLE_CONNECTION_SECONDS)
        # The connector offers no public way to say what its connections are.
        self._factory = partial(_Protocol, loop=asyncio.get_running_loop())  # type: ignore[assignment]

    async def connect(
        self,
        req: ClientRequest,
        traces: list[Trace],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109 - aiohttp's
    ) -> Connection:
        connection = await super().connect(req, traces, timeout)
        attempt, protocol = _attempt.get(), connection.protocol
        assert isinstance(protocol, _Protocol)
        if protocol.answered:
            protocol.used, protocol.answered = True, False
        attempt.connected = True
        attempt.may_be_stale = protocol.is_stale
        attempt.on_connect()
        return connection


class HttpForwarder:
    """A provider reached over HTTP. One session and one pool for the gateway's life."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._session = aiohttp.ClientSession(
            connector=_Connector(),
            timeout=aiohttp.ClientTimeout(total=None, connect=provider.connect_timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            auto_decompress=False,
            read_bufsize=READ_BUFFER_BYTES,
            headers={
                "Accept": "*/*",
                "Accept-Encoding": "identity",
                "Content-Type": "application/json",
                "User-Agent": "gateway",
                **provider.headers,
            },
        )
        self._targets: dict[str, tuple[URL, CIMultiDict[str]]] = {}

    async def fetch(self, exchange: Exchange, body: bytes) -> bytes:
        provider = self.provider
        now = asyncio.get_running_loop().time
        total_at = now() + provider.total_timeout

        try:
            async with asyncio.timeout_at(total_at) as deadline:

                def allow(seconds: float) -> None:
                    deadline.reschedule(min(now() + seconds, total_at))

                attempt = Attempt(on_connect=lambda: allow(provider.first_byte_timeout))
                answer = await self.open(exchange, body, attempt)
                try:
                    reply = _Collected(lambda: allow(provider.idle_timeout))
                    await answer.deliver(reply)
                finally:
                    answer.close()
        except TimeoutError as error:
            raise UpstreamTimeout("The upstream provider did not answer in time.") from error
        return reply.take()

    async def open(self, exchange: Exchange, body: bytes, attempt: Attempt) -> HttpAnswer:
        try:
            return await self._post(exchange, body, attempt)
        except (aiohttp.ClientError, OSError) as error:
            if not attempt.may_be_stale() or isinstance(error, TimeoutError):
                raise map_client_error(error) from error
        # The provider had closed the idle connection before it read a byte of this request.
        try:
            return await self._post(exchange, body, attempt)
        except (aiohttp.ClientError, OSError) as error:
            raise map_client_error(error) from error

    def redact(self, error: GatewayError) -> GatewayError:
        key = self.provider.api_key
        if key and key in error.message:
            error.message = error.message.replace(key, "[redacted]")
        return error

    async def close(self) -> None:
        await self._session.close()

    async def _post(self, exchange: Exchange, body: bytes, attempt: Attempt) -> HttpAnswer:
        _attempt.set(attempt)
        target = self._targets.get(exchange.path) or self._aim(exchange)
        response = await self._session.post(
            target[0], data=body, headers=target[1], allow_redirects=False
        )
        if response.status != 200:  # noqa: PLR2004
            raise await self._read_refusal(response)
        if response.headers.get("Content-Encoding", "identity").lower() != "identity":
            response.close()
            raise UpstreamError("The upstream provider sent an encoding nobody asked for.")
        return HttpAnswer(response)

    def _aim(self, exchange: Exchange) -> tuple[URL, CIMultiDict[str]]:
        url = URL(self.provider.base_url + exchange.path, encoded=True)
        headers = CIMultiDict(exchange.auth_headers(self.provider.api_key))
        self._targets[exchange.path] = (url, headers)
        return url, headers

    async def _read_refusal(self, response: aiohttp.ClientResponse) -> GatewayError:
        body = b""
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                while len(body) < MAX_ERROR_BYTES and (data := await response.content.readany()):
                    body += data
        except (aiohttp.ClientError, OSError):
            body = b""
        finally:
            response.close()
        wait = read_retry_after(response.headers.get("Retry-After"))
        return self.redact(map_status(response.status, body, wait))


class HttpAnswer:
    """An `Answer` over aiohttp's response: not reading is what makes it pause."""

    __slots__ = ("_response",)

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response

    async def deliver(self, receiver: Receiver) -> None:
        read = self._response.content.readany
        try:
            while data := await read():
                if not receiver.receive(data):
                    await receiver.ready()
        except (aiohttp.ClientError, OSError) as error:
            raise map_client_error(error) from error

    def close(self) -> None:
        # At the body's end aiohttp has put the connection back; else this closes it.
        self._response.close()


class _Collected:
    """A `Receiver` that keeps a bounded reply, and tells that it is coming."""

    __slots__ = ("_note", "_pieces", "_size")

    def __init__(self, note: Callable[[], None]) -> None:
        self._pieces: list[bytes] = []
        self._size = 0
        self._note = note

    def receive(self, data: bytes) -> bool:
        self._size += len(data)
        if self._size > MAX_REPLY_BYTES:
            raise UpstreamError("The upstream provider's reply is too large.")
        self._pieces.append(data)
        self._note()
        return True

    async def ready(self) -> None:
        return

    def take(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def map_client_error(error: Exception) -> UpstreamError:
    """Whose fault an exception of the client library is, and whether another route may be tried."""
    if isinstance(error, aiohttp.ClientSSLError | ssl.SSLError):
        return UpstreamError(
            "The upstream provider could not be reached securely.",
            next_route=True,
            alarm=f"TLS with the provider failed: {type(error).__name__}",
        )
    if isinstance(error, aiohttp.ClientConnectorError | aiohttp.ConnectionTimeoutError):
        return UpstreamUnavailable("The upstream provider cannot be reached.", next_route=True)
    if isinstance(error, TimeoutError):
        return UpstreamTimeout("The upstream provider did not answer in time.")
    if isinstance(error, aiohttp.ClientResponseError):
        return UpstreamError("The upstream provider's answer is not valid HTTP.")
    return UpstreamError("The upstream provider broke the connection.")


def read_retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After, a number or a date; None when there is none or it is no use."""
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        when = parsedate_to_datetime(value)
    except ValueError:
        return None
    return max(0.0, when.timestamp() - time.time())
