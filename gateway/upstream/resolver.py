"""The addresses of one host: one look-up at a time, in a thread of its own, the last good answer kept.

A name server that hangs blocks one thread of its provider and nothing else.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from gateway.base.turns import run_apart

log = logging.getLogger("gateway.resolver")

FRESH_SECONDS: Final = 30.0
"""Seconds for which an answer counts as fresh: about the TTL of hosts that move, which getaddrinfo hides."""
PATIENCE_SECONDS: Final = 0.5
"""Seconds that a look-up may take before the last good answer is used instead: a name server that hangs must
not hold up requests."""

Address = tuple[int, tuple[object, ...]]
"""A family and the address for `socket.connect`."""
LookUp = Callable[[str, int], Sequence[Address]]
"""Blocks until the addresses of a host and port are known. Raises OSError, UnicodeError."""


def look_up(host: str, port: int, flags: int = 0) -> list[Address]:
    """Ask the system's resolver, in its order of preference (RFC 6724)."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=flags)
    return [(family, address) for family, _, _, _, address in found]


class Resolver:
    """The addresses of one host and port."""

    def __init__(self, host: str, port: int, ask: LookUp = look_up) -> None:
        self.host = host
        self._port = port
        self._ask = ask
        self._answer: Sequence[Address] = ()
        self._fresh_until = 0.0
        self._error: BaseException | None = None
        """Why the last look-up failed."""
        self._running: asyncio.Future[Sequence[Address]] | None = None
        self._patient_until = 0.0

    async def resolve(self) -> Sequence[Address]:
        """Return the addresses: fresh ones, or the last good ones where a look-up fails or is slow.

        Raises OSError or UnicodeError where the host was never found.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._fresh_until:
            return self._answer
        if self._running is None:
            self._start(loop)
        if self._running is not None:
            patience = max(self._patient_until - loop.time(), 0.0) if self._answer else None
            # Unlike `wait_for` this leaves the look-up running, as other requests wait for it, too.
            await asyncio.wait((self._running,), timeout=patience)
        if not self._answer:
            assert self._error is not None
            raise self._error
        return self._answer

    def doubt(self) -> None:
        """Look up again at the next call: none of the addresses worked."""
        self._fresh_until = 0.0

    def _start(self, loop: asyncio.AbstractEventLoop) -> None:
        """Begin a look-up; a host that is an IP address is parsed at once."""
        self._patient_until = loop.time() + PATIENCE_SECONDS
        # AI_NUMERICHOST asks no name server, so it cannot block the loop.
        with contextlib.suppress(OSError, UnicodeError):
            self._finish(look_up(self.host, self._port, socket.AI_NUMERICHOST))
            return
        try:
            self._running = run_apart(partial(self._ask, self.host, self._port))
        # "can't start new thread" is a lack of this machine's, which ENOMEM tells the dialler.
        except RuntimeError as error:
            self._finish(OSError(errno.ENOMEM, str(error)))
        else:
            self._running.add_done_callback(self._take)

    def _take(self, asked: asyncio.Future[Sequence[Address]]) -> None:
        self._running = None
        self._finish(asked.exception() or asked.result() or OSError("the host has no address"))

    def _finish(self, outcome: Sequence[Address] | BaseException) -> None:
        # Never raised here: waiting requests may still use the last good answer.
        if isinstance(outcome, BaseException):
            # Logged when an outage begins, not at each look-up in it.
            if self._answer and self._error is None:
                text = "%s cannot be resolved; its last addresses are used: %s"
                log.warning(text, self.host, outcome)
            self._error = outcome
        else:
            self._answer, self._error = outcome, None
            self._fresh_until = asyncio.get_running_loop().time() + FRESH_SECONDS
