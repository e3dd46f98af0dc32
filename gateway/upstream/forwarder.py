"""Requests to one provider over HTTP, and the meaning of its failures.

Every exception of a connection becomes an `UpstreamError` here, so no `except` further in can blame
the provider for what the caller did.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from yarl import URL

from gateway.config import Provider
from gateway.dialects import Exchange, map_status
from gateway.errors import (
    Blame,
    GatewayError,
    OutOfResources,
    UpstreamError,
    UpstreamUnavailable,
)
from gateway.upstream.attempt import Attempt
from gateway.upstream.bodies import CheckedBody, CollectedBody, Receiver, is_reply_type
from gateway.upstream.connection import Broken, Connection
from gateway.upstream.dial import Dialer, InsecureConnection, LocalFault, Unreachable
from gateway.upstream.http1 import Head
from gateway.upstream.pool import Pool
from gateway.upstream.redaction import redact
from gateway.upstream.ticker import Ticker

MAX_ERROR_BYTES: Final = 64 << 10
"""Bytes of an error's body that are read: errors are objects of some KiB."""
ERROR_BODY_SECONDS: Final = 5.0
"""How long the text of an error is waited for; its status alone decides what happens next."""

_HEADERS: Final = {
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "gateway",
}


class Answer(Protocol):
    """A 200 from a provider whose body has not been read yet."""

    async def deliver(self, receiver: Receiver) -> None:
        """Hand over the body until its clean end or until `stop`. Raises UpstreamError."""

    def stop(self) -> None:
        """End `deliver`: the receiver has all it needs."""

    def close(self) -> None:
        """Return the connection to its pool, or cut it where the body was not read to its end."""


_REQUEST_TIMEOUT: Final = 408
"""A status that servers send into an idle connection before they close it (RFC 9110 §15.5.9)."""


class Forwarder(Protocol):
    """The way to one provider."""

    provider: Provider

    async def open(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str], attempt: Attempt
    ) -> Answer:
        """Send the request, with `headers` of the caller's, and read the head of the answer.

        Raises UpstreamError, BadRequest when the provider found fault with the request, or the
        error given to `attempt.fail`.
        """

    def redact(self, error: GatewayError) -> GatewayError:
        """Take the provider's key out of an error, whatever the provider echoed."""

    def close(self) -> None: ...


class HttpForwarder:
    """A provider reached over HTTP/1.1."""

    def __init__(self, provider: Provider) -> None:
        self.provider = provider
        self._url = URL(provider.base_url)
        proxy = URL(provider.proxy) if provider.proxy else None
        self._pool = Pool(Dialer(self._url, provider.connect_timeout, proxy=proxy))
        self._heads: dict[str, bytes] = {}

    async def open(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str], attempt: Attempt
    ) -> Answer:
        request, fresh = self._write_request(exchange, body, headers), False
        while True:
            connection = (None if fresh else self._pool.take()) or await self._connect()
            try:
                attempt.attach(connection)
                connection.start(request)
                head = await connection.read_head()
            except Broken as error:
                is_stale = connection.is_stale
                connection.close()
                if not is_stale:
                    raise _break_off(error, "model") from error
            except BaseException:
                connection.close()
                raise
            else:
                if head.status == 200:  # noqa: PLR2004
                    return _accept(connection, head)
                if fresh or head.status != _REQUEST_TIMEOUT or not connection.was_idle:
                    attempt.refuse()
                    raise await self._read_refusal(connection, head)
                connection.close()  # it was about to be closed, and the request came too late
            attempt.detach()
            fresh = True  # never twice: each send may have done the work

    def redact(self, error: GatewayError) -> GatewayError:
        redact(error, self.provider.api_key)
        return error

    def close(self) -> None:
        self._pool.close()

    async def _connect(self) -> Connection:
        """Make a new connection. Raises UpstreamError, OutOfResources."""
        try:
            return await self._pool.get(fresh=True)
        except Unreachable as error:
            raise UpstreamUnavailable(
                "The upstream provider cannot be reached.",
                next_route=True,
                blame="provider",
                alarm=error.alarm,
                cause=f"connect: {error}",
            ) from error
        except InsecureConnection as error:
            raise UpstreamError(
                "The upstream provider could not be reached securely.",
                next_route=True,
                blame="provider",
                alarm=f"TLS with the provider failed: {error}",
                cause=f"TLS: {error}",
            ) from error
        except LocalFault as error:
            failure = OutOfResources("The gateway cannot make connections. Try again shortly.")
            failure.cause = f"not tried: this machine: {error}"
            raise failure from error

    def _write_request(self, exchange: Exchange, body: bytes, passed: Mapping[str, str]) -> bytes:
        if passed:
            head = self._write_head(exchange, passed)
        else:
            head = self._heads.get(exchange.upstream.path) or self._write_head(exchange, {})
            self._heads[exchange.upstream.path] = head
        return b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def _write_head(self, exchange: Exchange, passed: Mapping[str, str]) -> bytes:
        """Return the request's head up to the value of Content-Length; later headers replace earlier."""
        auth = exchange.upstream.auth_headers(self.provider.api_key)
        own = {
            "Host": self._url.host_port_subcomponent or "",
            **_HEADERS,
            **self.provider.headers,
            **auth,
        }
        target = self._url.raw_path.rstrip("/") + exchange.upstream.path
        lines = [f"POST {target} HTTP/1.1", *_format_headers(own, passed), "Content-Length: "]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape")

    async def _read_refusal(self, connection: Connection, head: Head) -> GatewayError:
        body = CollectedBody(MAX_ERROR_BYTES)
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                await connection.deliver(body)
        except (Broken, UpstreamError, TimeoutError):
            pass  # a part of the text is better than none
        finally:
            connection.close()
        wait = read_retry_after(head.get(b"retry-after"))
        return self.redact(map_status(head.status, body.take(), wait))


def _accept(connection: Connection, head: Head) -> Answer:
    """Return the answer of a head with status 200. Raises UpstreamError for one in a strange encoding."""
    if head.headers.get(b"content-encoding", b"") not in {b"", b"identity"}:
        connection.close()
        raise UpstreamError(
            "The upstream provider sent an encoding nobody asked for.",
            cause="200, but encoded",
        )
    is_typed = is_reply_type(head.headers.get(b"content-type", b""))
    return _HttpAnswer(connection) if is_typed else _UntypedAnswer(connection)


class _HttpAnswer:
    """An `Answer` on its connection."""

    __slots__ = ("_connection", "close", "stop")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self.stop = connection.stop
        self.close = connection.close

    async def deliver(self, receiver: Receiver) -> None:
        try:
            await self._connection.deliver(receiver)
        except Broken as error:
            raise _break_off(error, "reply") from error


class _UntypedAnswer(_HttpAnswer):
    """An `Answer` whose Content-Type says nothing: some local servers send another, or none."""

    __slots__ = ()

    async def deliver(self, receiver: Receiver) -> None:
        checked = CheckedBody(receiver)
        await super().deliver(checked)
        checked.end()


async def fetch(
    forwarder: Forwarder,
    exchange: Exchange,
    body: bytes,
    headers: Mapping[str, str],
    ticker: Ticker,
) -> bytes:
    """Send a request and return the whole body of the reply, within the provider's time-outs.

    Raises what `Forwarder.open` and `Answer.deliver` raise.
    """
    attempt, reply = Attempt(forwarder.provider), CollectedBody()
    ticker.add(attempt)
    try:
        answer = await forwarder.open(exchange, body, headers, attempt)
        try:
            await answer.deliver(reply)
        finally:
            answer.close()
    finally:
        ticker.remove(attempt)
    return reply.take()


def read_retry_after(value: str) -> float | None:
    """Read the seconds of a Retry-After header, a number or a date (RFC 9110 §10.2.3); None if unusable."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, TypeError):
        return None


def _break_off(error: Broken, blame: Blame) -> UpstreamError:
    return UpstreamError(
        f"The upstream provider's answer broke off: {error}.",
        blame=blame,
        cause=f"broke off: {error}",
    )


def _format_headers(*sources: Mapping[str, str]) -> list[str]:
    """Write header lines. Of names that differ only in case the last one counts."""
    by_name = {name.lower(): (name, value) for source in sources for name, value in source.items()}
    return [f"{name}: {value}" for name, value in by_name.values()]
