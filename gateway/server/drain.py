"""Catch signals, and let requests in flight end before the process does.

If the gateway bound its address itself, the socket stays open until the end and new requests get a 503,
`/readyz` too, so that a load balancer chooses another server.

If systemd passed the sockets, no new connection is refused. The gateway closes its copies at once,
the kernel queues new connections, and the next process serves them. They wait until the requests in
flight have ended, at most `drain_seconds`. Idle connections are closed, and others after their
reply, so that callers open new ones. (A request that is on its way to a connection being closed
fails; SDKs retry it.) A connection that was never used stays open: its caller is about to send, and
a 503 says more than a reset.

In both cases a request on an open connection gets a 503, and every reply that begins during the
drain has `Connection: close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Final, TypeVar

from aiohttp import hdrs, web

from gateway.api.state import Gateway
from gateway.base.errors import STOPPED, Overloaded
from gateway.base.turns import spawn
from gateway.server.connections import ConnectionWatch
from gateway.server.listener import Listener

log = logging.getLogger("gateway.connections")

Result = TypeVar("Result")

STOP_SECONDS: Final = 1.0
"""Time for cancelled requests to send their last bytes: each writes one event."""
IDLE_POLL_SECONDS: Final = 0.05
"""How often a drain checks whether connections are idle, as aiohttp sends no notice."""


class StoppedAtStart(Exception):
    """The first signal came before there was anything to drain."""


@dataclass(frozen=True, slots=True)
class Signals:
    """Signals that came: the first one to stop starts the drain, the second one cuts it short."""

    first: asyncio.Event = field(default_factory=asyncio.Event)
    second: asyncio.Event = field(default_factory=asyncio.Event)

    def note_stop(self) -> None:
        (self.second if self.first.is_set() else self.first).set()

    async def cancel_at_first(self, start: Awaitable[Result]) -> Result:
        """Await a part of the start, which may wait long for another's upgrade. Raises StoppedAtStart."""
        task = asyncio.current_task()
        assert task is not None

        async def cancel() -> None:
            await self.first.wait()
            task.cancel()

        watch = spawn(cancel(), name="stop")
        try:
            return await start
        except asyncio.CancelledError:
            if not self.first.is_set():
                raise
            raise StoppedAtStart from None
        finally:
            watch.cancel()


def catch_signals() -> Signals:
    """Catch all signals that would end the process without a drain; only two of them stop it.

    Call it first, so that a signal during start-up stops cleanly. SIGHUP stays blocked, unless an extra
    catches it.
    """
    signals = Signals()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, signals.note_stop)
    for number in (signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
        loop.add_signal_handler(number, _ignore, number)
    return signals


def _ignore(number: signal.Signals) -> None:
    log.warning("%s is ignored: SIGTERM stops the gateway", number.name)


async def close_while_draining(
    gateway: Gateway,
    request: web.Request,  # noqa: ARG001 - the signal's
    response: web.StreamResponse,
) -> None:
    """Make a reply that begins during the drain the last one of its connection."""
    if gateway.draining:
        response.headers[hdrs.CONNECTION] = "close"
        response.force_close()


async def drain(
    gateway: Gateway, connections: ConnectionWatch, listener: Listener, cut_short: asyncio.Event
) -> None:
    """Wait for requests in flight; end the rest with an error in their dialect.

    The wait ends after `drain_seconds` or when `cut_short` is set.
    """

    async def wait_until_idle(seconds: float, cut_short: asyncio.Event) -> None:
        """Wait until all replies have been read, the time is over or `cut_short` is set."""
        until = asyncio.get_running_loop().time() + seconds
        while not cut_short.is_set() and not connections.is_idle():
            if listener.is_passed:
                connections.close_idle()
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                # A second signal ends this wait at once.
                await asyncio.wait_for(cut_short.wait(), min(left, IDLE_POLL_SECONDS))

    gateway.draining = True
    if listener.is_passed:
        listener.close()
    log.info("stopping: %d requests in flight", gateway.in_flight)
    await wait_until_idle(gateway.config.server.drain_seconds, cut_short)
    if gateway.in_flight:
        log.warning("stopping: cutting off %d requests", gateway.in_flight)
        gateway.ticker.stop_all(Overloaded(STOPPED))
    # Not `cut_short`: requests that were cut off get their error also after a second signal.
    await wait_until_idle(STOP_SECONDS, asyncio.Event())
    connections.abort_all()


async def wait_for_handlers(gateway: Gateway) -> None:
    """Wait until handlers whose connections were aborted have resolved their holds."""
    until = asyncio.get_running_loop().time() + STOP_SECONDS
    while gateway.in_flight and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
        await asyncio.sleep(IDLE_POLL_SECONDS)
