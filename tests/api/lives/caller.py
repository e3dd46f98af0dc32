"""A caller that reads, stalls or leaves."""

from __future__ import annotations

import asyncio
import random
from functools import partial
from typing import Final

from gateway.dialects.messages.stream import STOP
from gateway.errors import GatewayError
from gateway.tasks import spawn
from tests.api.lives.ledger import WatchedLedger
from tests.api.lives.loop import DELAYS, Log
from tests.dialects.chat.kit import DONE

STALL_SECONDS: Final = 3.0
COMMENT_SECONDS: Final = 1.0


class FakeSink:
    """A caller that reads, stalls or leaves as its script says."""

    unread_bytes = 0

    def __init__(self, ledger: WatchedLedger, dice: random.Random, log: Log) -> None:
        loop = asyncio.get_running_loop()
        self._ledger = ledger
        self._log = log
        self._wait_admitted = partial(ledger.wait_admitted, ledger.holds[0])
        self._dice = dice
        self._loop = loop
        self.opened = False
        self.lost = False
        self._flowing = False
        self._over = False
        self._stalled_since: float | None = None
        self._gone: asyncio.Event = asyncio.Event()
        self._stalls = dice.random() < 0.2
        self._pending: list[bytes] = []
        self.sent: list[bytes] = []
        self.last: str | None = None
        self._comment_due = loop.time() + COMMENT_SECONDS
        if dice.random() < 0.45:
            loop.call_later(dice.choice((0.0, 0.01, 0.2, 1.0, 3.0, 8.0)), self.leave)

    def leave(self) -> None:
        if not self.lost and not self._over:
            self._log.note("the caller leaves")
        self.lost = True
        self._gone.set()

    async def begin(self) -> None:
        await self._open()
        self._flowing = True
        self.send(b"".join(self._pending))

    def send(self, data: bytes) -> bool:
        if not self._flowing:
            self._pending.append(data)
            return False
        self._log.check(self.last is None, "events are sent behind the end")
        self._comment_due = self._loop.time() + COMMENT_SECONDS
        if not self.lost:
            self.sent.append(data)
        return self._dice.random() < 0.8

    async def unblock(self) -> None:
        self._stalled_since = self._loop.time()
        seconds = 1000.0 if self._stalls else self._dice.choice(DELAYS)
        try:
            async with asyncio.timeout(seconds):
                await self._gone.wait()
        except TimeoutError:
            return
        finally:
            self._stalled_since = None
        raise ConnectionResetError

    def tick(self, now: float, *, mid_event: bool) -> None:  # noqa: ARG002 - no long events here
        since = self._stalled_since
        if since is not None:
            if now - since >= STALL_SECONDS:
                self.leave()
        elif now >= self._comment_due and not self._over:
            self._comment_due = now + COMMENT_SECONDS
            _ = spawn(self._comment(), name="comment")

    def end(self, data: bytes) -> None:
        if self.lost:
            return
        self._log.check(self.last is None, "there are two ends")
        self.last = "reply" if data in {DONE, STOP} else "error"
        self._over = True
        if self.last == "reply":
            is_complete = self._ledger.committed == "complete"
            self._log.check(is_complete, "the last bytes leave before the charge is committed")

    def abort(self) -> None:
        self._over = True
        self.lost = True
        self._gone.set()

    def close(self) -> None:
        self._over = True

    async def _open(self) -> None:
        if self.opened:
            return
        await self._wait_admitted()
        if self.opened:
            return
        if self.lost or self._over:
            raise ConnectionResetError
        self._log.note("head")
        self.opened = True

    async def _comment(self) -> None:
        try:
            await self._open()
        except (GatewayError, ConnectionError):
            return
        self._log.check(self.opened or self._over or self.lost, "a comment without a head")
