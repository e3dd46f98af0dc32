"""The upstream side: one forwarder per provider, and what its failures mean.

Every exception of the connection becomes an `UpstreamError` here, so that no `except` further in
can blame the provider for what the caller did.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from yarl import URL

from gateway.config import Provider
from gateway.connection import (
    Broken,
    Connection,
    InsecureConnection,
    Pool,
    Receiver,
    Unreachable,
)
from gateway.dialects.base import Exchange
from gateway.dialects.upstream_errors import map_status
from gateway.errors import GatewayError, UpstreamError, UpstreamTimeout, UpstreamUnavailable
from gateway.http1 import Head
from gateway.watch import Watch

MAX_REPLY_BYTES: Final = 64 << 20
"""A JSON reply is held back whole until it is charged; beyond this it is a broken upstream."""
MAX_ERROR_BYTES: Final = 64 << 10
ERROR_BODY_SECONDS: Final = 5.0
"""How long the text of an error is waited for: the status alone decides."""

_HEADERS: Final = {
    "Accept": "*/*",
    "Accept-Encoding": "identity",
    "Content-Type": "application/json",
    "User-Agent": "gateway",
}


def _do_nothing() -> None:
    return


@dataclass(slots=True)
class Attempt:
    """What is known of one try at one route, failed or not."""

    on_connect: Callable[[], None] = _do_nothing
    """Called when there is a connection: the time for the first byte runs from then."""
    connection: Connection | None = None
    connected: bool = False
    """Whether the work may have been done: there was a connection, and no refusal."""


class Answer(Protocol):
    """A 200 from an upstream whose body is not read yet."""

    async def deliver(self, receiver: Receiver) -> None:
        """Hand over the body until its clean end. Raises UpstreamError."""

    def close(self) -> None:
        """Give the connection up (or back, when the body was read to its end)."""


class Forwarder(Protocol):
    """One provider."""

    provider: Provider

    async def fetch(self, exchange: Exchange, body: bytes, headers: Mapping[str, str]) -> bytes:
        """Send the request, with `headers` of the caller's, and read the whole JSON reply, within the provider's time-outs.

        Raises UpstreamError, or BadRequest when the upstream found fault with the request.
        """

    async def open(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str], attempt: Attempt
    ) -> Answer:
        """Send the request and read the head of the answer. The caller keeps the time."""

    def redact(self, error: GatewayError) -> GatewayError:
        """The error without this provider's key, whatever the upstream echoed."""

    def close(self) -> None: ...


class HttpForwarder:
    """A provider reached over HTTP/1.1."""

    def __init__(self, provider: Provider, watch: Watch) -> None:
        self.provider = provider
        self._watch = watch
        self._url = URL(provider.base_url, encoded=True)
        self._pool = Pool(self._url, provider.connect_timeout)
        self._heads: dict[str, bytes] = {}

    async def fetch(self, exchange: Exchange, body: bytes, headers: Mapping[str, str]) -> bytes:
        patience = _Patience(self.provider)
        reply = _Collected(MAX_REPLY_BYTES, patience.note_progress)
        self._watch.add(patience)
        try:
            answer = await self.open(exchange, body, headers, patience.attempt)
            try:
                await answer.deliver(reply)
            finally:
                answer.close()
        finally:
            self._watch.remove(patience)
        return reply.take()

    async def open(
        self, exchange: Exchange, body: bytes, headers: Mapping[str, str], attempt: Attempt
    ) -> Answer:
        request = self._write_request(exchange, body, headers)
        connection, head = await self._ask(request, attempt)
        if head.status != 200:  # noqa: PLR2004
            attempt.connected = False  # it refused: nothing was done that anybody could owe
            raise await self._read_refusal(connection, head)
        if head.get(b"content-encoding").lower() not in {"", "identity"}:
            connection.close()
            raise UpstreamError("The upstream provider sent an encoding nobody asked for.")
        return _HttpAnswer(connection)

    def redact(self, error: GatewayError) -> GatewayError:
        if self.provider.api_key:
            error.replace_text(self.provider.api_key, "[redacted]")
        return error

    def close(self) -> None:
        self._pool.close()

    async def _ask(self, request: bytes, attempt: Attempt) -> tuple[Connection, Head]:
        """Send on a connection and read the head; once more where the first had gone stale."""
        fresh = False
        while True:
            connection = await self._connect(fresh=fresh)
            attempt.connection, attempt.connected = connection, True
            attempt.on_connect()
            try:
                connection.start(request)
                return connection, await connection.read_head()
            except Broken as error:
                is_stale = connection.is_stale
                connection.close()
                if not is_stale:
                    raise _blame_connection(error) from error
                fresh = True  # never twice: each send may have done the work
            except BaseException:
                connection.close()
                raise

    async def _connect(self, *, fresh: bool) -> Connection:
        try:
            return await self._pool.get(fresh=fresh)
        except Unreachable as error:
            raise UpstreamUnavailable(
                "The upstream provider cannot be reached.", next_route=True
            ) from error
        except InsecureConnection as error:
            raise UpstreamError(
                "The upstream provider could not be reached securely.",
                next_route=True,
                alarm=f"TLS with the provider failed: {error}",
            ) from error

    def _write_request(self, exchange: Exchange, body: bytes, passed: Mapping[str, str]) -> bytes:
        if passed:
            head = self._write_head(exchange, passed)
        else:
            head = self._heads.get(exchange.path) or self._write_head(exchange, {})
            self._heads[exchange.path] = head
        return b"%b%d\r\n\r\n%b" % (head, len(body), body)

    def _write_head(self, exchange: Exchange, passed: Mapping[str, str]) -> bytes:
        """The request's head up to the value of Content-Length; later headers stand for earlier."""
        auth = exchange.auth_headers(self.provider.api_key)
        own = {"Host": self._url.authority, **_HEADERS, **self.provider.headers, **auth}
        target = self._url.raw_path.rstrip("/") + exchange.path
        lines = [f"POST {target} HTTP/1.1", *_format_headers(own, passed), "Content-Length: "]
        return "\r\n".join(lines).encode("utf-8", "surrogateescape")

    async def _read_refusal(self, connection: Connection, head: Head) -> GatewayError:
        body = _Collected(MAX_ERROR_BYTES, _do_nothing)
        try:
            async with asyncio.timeout(ERROR_BODY_SECONDS):
                await connection.deliver(body)
        except (Broken, UpstreamError, TimeoutError):
            pass  # what came of it will do
        finally:
            connection.close()
        wait = read_retry_after(head.get(b"retry-after"))
        return self.redact(map_status(head.status, body.take(), wait))


class _HttpAnswer:
    """An `Answer` on its connection."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def deliver(self, receiver: Receiver) -> None:
        try:
            await self._connection.deliver(receiver)
        except Broken as error:
            raise _blame_connection(error) from error

    def close(self) -> None:
        self._connection.close()


class _Patience:
    """The time-outs of one JSON request; a `Watched`."""

    __slots__ = ("_due", "_now", "_provider", "_stopped", "_total_due", "attempt")

    def __init__(self, provider: Provider) -> None:
        self.attempt = Attempt(on_connect=self._await_first_byte)
        self._provider = provider
        self._stopped: GatewayError | None = None
        self._now = asyncio.get_running_loop().time
        self._due = float("inf")  # the pool minds the time to connect
        self._total_due = self._now() + provider.total_timeout

    def tick(self, now: float) -> None:
        connection = self.attempt.connection
        if connection is not None and now >= min(self._due, self._total_due):
            connection.fail(UpstreamTimeout("The upstream provider did not answer in time."))

    def stop(self, error: GatewayError) -> None:
        self._stopped = error
        if self.attempt.connection is not None:
            self.attempt.connection.fail(error)

    def note_progress(self) -> None:
        self._due = self._now() + self._provider.idle_timeout

    def _await_first_byte(self) -> None:
        self._due = self._now() + self._provider.first_byte_timeout
        if self._stopped is not None:
            self.stop(self._stopped)  # it was said while there was no connection to tell


@dataclass(slots=True)
class _Collected:
    """A `Receiver` that keeps a bounded body, and tells that it is coming."""

    most_bytes: int
    note_progress: Callable[[], None]
    _pieces: list[bytes] = field(default_factory=list)
    _size: int = 0

    def receive(self, data: bytes) -> bool:
        self._size += len(data)
        if self._size > self.most_bytes:
            raise UpstreamError("The upstream provider's reply is too large.")
        self._pieces.append(data)
        self.note_progress()
        return True

    async def ready(self) -> None:
        return

    def take(self) -> bytes:
        return self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)


def read_retry_after(value: str) -> float | None:
    """Seconds of a Retry-After, a number or a date; None when there is none or it is no use."""
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, OverflowError, TypeError):
        return None


def _blame_connection(error: Broken) -> UpstreamError:
    return UpstreamError(f"The upstream provider's answer broke off: {error}.")


def _format_headers(*sources: Mapping[str, str]) -> list[str]:
    """Header lines; of equal names, whatever their case, the last counts."""
    by_name = {name.lower(): (name, value) for source in sources for name, value in source.items()}
    return [f"{name}: {value}" for name, value in by_name.values()]
