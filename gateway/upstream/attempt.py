"""One try at one route: its deadlines, and the way to end it early."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from gateway.config import Provider
from gateway.errors import GatewayError, UpstreamTimeout
from gateway.upstream.connection import Connection


@dataclass(slots=True, eq=False, repr=False)
class Attempt:
    """One try at one route. The ticker looks at its deadlines; times are the loop's.

    The dialler limits the time to connect. From then on the first byte, silence within the reply and
    the whole try have a limit each (`first_byte_timeout`, `idle_timeout`, `total_timeout`).
    """

    provider: Provider
    on_sent: Callable[[], None] = lambda: None
    """Called when the provider gets the request."""
    on_refused: Callable[[], None] = lambda: None
    """Called when the provider declines it."""
    is_wanted: Callable[[], bool] = lambda: True
    """Tells whether a declined request may be sent by another key: its caller may have left."""
    affinity: str = ""
    """Requests with the same one go out by the same key of the provider, if it can serve."""
    _connection: Connection | None = None
    _error: Exception | None = None
    _begun: bool = False
    _body_reads: int = 0
    _quiet_since: float = 0.0
    _total_due: float = 0.0

    def __post_init__(self) -> None:
        self._total_due = asyncio.get_running_loop().time() + self.provider.total_timeout

    def attach(self, connection: Connection) -> None:
        """Note the connection by which the request is about to be sent. Raises as `send`."""
        self.send()
        self._connection = connection
        self._body_reads = connection.body_reads
        self._quiet_since = asyncio.get_running_loop().time()

    def detach(self) -> None:
        """Forget a connection that was stale: the request goes out by another one."""
        self._connection = None

    def send(self) -> None:
        """Note that the request goes out. Raises the error given to `fail` before."""
        if self._error is not None:
            raise self._error
        self.on_sent()

    def refuse(self) -> None:
        """Note that the provider declined the request, so it costs nothing."""
        self.on_refused()

    def check(self) -> None:
        """Raise the error given to `fail` while there was no connection."""
        if self._error is not None:
            raise self._error

    def fail(self, error: Exception) -> None:
        """End the attempt with `error`, or before anything is sent if there is no connection yet."""
        if self._error is None:
            self._error = error
        if self._connection is not None:
            self._connection.fail(error)

    @property
    def failed(self) -> bool:
        """An error was given to `fail`."""
        return self._error is not None

    def stop(self, error: GatewayError) -> None:
        """End the attempt: the gateway is shutting down."""
        self.fail(error)

    def tick(self, now: float) -> None:
        """Fail the attempt if a deadline has passed."""
        connection = self._connection
        if connection is None:
            return
        if connection.body_reads != self._body_reads or connection.paused:
            self._body_reads = connection.body_reads
            self._begun = True
            self._quiet_since = now  # a slow caller (paused) is not the provider's silence
        limit = "idle_timeout" if self._begun else "first_byte_timeout"
        if now >= self._total_due:
            limit = "total_timeout"
        elif now - self._quiet_since < getattr(self.provider, limit):
            return
        message = "The upstream provider did not answer in time."
        self.fail(UpstreamTimeout(message, cause=f"timeout: {limit}"))
