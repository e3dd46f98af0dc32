"""The way out: signals, the drain, and what becomes of open connections meanwhile.

With an address of our own the socket stays open to the end: whoever comes gets a 503, `/readyz`
too, and so a balancer looks elsewhere.

With passed sockets nobody new is refused. The gateway closes its copies at once, the kernel queues
new connections, and the next process serves them; they wait as long as requests in flight take to
end, at most `drain_seconds`. Connections that idle between two requests are closed, and others as
soon as their reply is out, so that callers open new ones. (A request on its way to an idle one just
then meets a closed connection, which SDKs try again.) One that was never used stays: its caller is
about to send, and a 503 tells more than a reset.

In either case a request by a connection still open gets the 503, and every reply that begins from
now on says `Connection: close`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
from dataclasses import dataclass
from typing import Final

from aiohttp import hdrs, web
from aiohttp.web_protocol import RequestHandler

from gateway.callerwatch import CallerWatch, is_stalled
from gateway.errors import Overloaded
from gateway.listener import Listener
from gateway.state import GATEWAY, Gateway

log = logging.getLogger("gateway.drain")

STOP_SECONDS: Final = 1.0
"""What requests that were told to end get for it."""
IDLE_POLL_SECONDS: Final = 0.05
GRACE_SECONDS: Final = 15.0
"""Within `drain_seconds` and this the process has ended."""


@dataclass(frozen=True, slots=True)
class Stop:
    """The signals to stop: after the first requests in flight may end, after the second not."""

    first: asyncio.Event
    second: asyncio.Event

    def note(self) -> None:
        (self.second if self.first.is_set() else self.first).set()


def catch_signals() -> Stop:
    """SIGTERM and SIGINT, caught from the very start, so that no stop is an unclean one."""
    stop = Stop(asyncio.Event(), asyncio.Event())
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.note)
    return stop


async def part_while_draining(request: web.Request, response: web.StreamResponse) -> None:
    """A reply that begins while draining is its connection's last."""
    if request.app[GATEWAY].draining:
        response.headers[hdrs.CONNECTION] = "close"
        response.force_close()


@dataclass(frozen=True, slots=True)
class Exit:
    """What the drain has to do with."""

    gateway: Gateway
    server: web.Server
    callers: CallerWatch
    listener: Listener

    async def drain(self, hurry: asyncio.Event) -> None:
        """Let requests in flight end; then end them, each with an error in its dialect."""
        gateway = self.gateway
        gateway.draining = True
        if self.listener.is_passed:
            self.listener.close()
        log.info("stopping: %d requests in flight", gateway.in_flight)
        await self._wait_until_idle(gateway.config.server.drain_seconds, hurry)
        if gateway.in_flight:
            log.warning("stopping: %d requests are cut off", gateway.in_flight)
            error = Overloaded("The gateway was stopped before this reply was complete.")
            gateway.watch.stop_all(error)
        await self._wait_until_idle(STOP_SECONDS, asyncio.Event())
        self.callers.abort_all()

    async def _wait_until_idle(self, seconds: float, hurry: asyncio.Event) -> None:
        """Until all replies are out, the time is over or somebody cannot wait."""
        until = asyncio.get_running_loop().time() + seconds
        while not hurry.is_set() and not self.callers.is_idle():
            if self.listener.is_passed:
                part_with_callers(self.server)
            left = until - asyncio.get_running_loop().time()
            if left <= 0:
                return
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(hurry.wait(), min(left, IDLE_POLL_SECONDS))


def part_with_callers(server: web.Server) -> None:
    """Close the connections that idle between requests, and the others after their reply."""
    for connection in tuple(server.connections):
        if _is_between_requests(connection):
            if not is_stalled(connection):
                connection.force_close()
        elif _has_whole_request(connection):
            connection.close()  # when the reply is out; what comes until then is not read


def _is_between_requests(connection: RequestHandler) -> bool:
    """There is no public word for it: its task waits, and nothing is there to wake it."""
    waiter = connection._waiter  # noqa: SLF001
    is_waiting = waiter is not None and not waiter.done() and not connection._messages  # noqa: SLF001
    return is_waiting and connection._request_count > 0  # noqa: SLF001


def _has_whole_request(connection: RequestHandler) -> bool:
    request = connection._current_request  # noqa: SLF001
    return request is not None and request.content.is_eof()


async def wait_for_handlers(gateway: Gateway) -> None:
    """Handlers whose callers were cut off still have their holds to resolve."""
    until = asyncio.get_running_loop().time() + STOP_SECONDS
    while gateway.in_flight and asyncio.get_running_loop().time() < until:  # noqa: ASYNC110
        await asyncio.sleep(IDLE_POLL_SECONDS)
