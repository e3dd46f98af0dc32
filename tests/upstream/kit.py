"""Receivers of a reply's body, and requests to a scripted provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.base.deadlines import Clock
from gateway.upstream.attempt import Attempt, CollectedBody, FreeLife, Response
from gateway.upstream.forwarder import HttpForwarder
from tests.support.formats import EXCHANGES
from tests.support.upstream import ScriptedUpstream

EXCHANGE: Final = EXCHANGES["chat"]["chat"]


@dataclass(slots=True)
class Taker:
    """Takes all that comes; while it is `full` it asks to be waited for, until `room` is set."""

    full: bool = False
    pieces: list[bytes] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def receive(self, data: bytes) -> bool:
        self.pieces.append(data)
        return not self.full

    async def unblock(self) -> None:
        self.asked.set()
        await self.room.wait()
        self.full = False


@dataclass(slots=True)
class Way:
    """A forwarder to a scripted provider."""

    forwarder: HttpForwarder
    scripted: ScriptedUpstream

    def make_attempt(self, **facts: Any) -> Attempt:
        return Attempt(self.forwarder.provider, Clock(), **facts)

    def open(self, attempt: Attempt | None = None) -> Coroutine[Any, Any, Response]:
        return self.forwarder.open(EXCHANGE, b"{}", {}, attempt or self.make_attempt())

    def begin(self, attempt: Attempt | None = None) -> asyncio.Task[Response]:
        return asyncio.get_running_loop().create_task(self.open(attempt))

    async def ask(self, opened: Callable[[], None] = lambda: None, **facts: Any) -> bytes:
        """Send a request and read its whole reply; it is `opened` when its head was read."""
        answer, body = await self.open(self.make_attempt(**facts)), CollectedBody()
        opened()
        try:
            await answer.deliver(body)
        finally:
            answer.close()
        return body.take()


class TellingLife(FreeLife):
    """A life that writes down what an attempt tells it: `told` has what happened: "sent", "declined"."""

    def __init__(self, declined: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.told: list[str] = []
        self._declined = declined

    def note_sent(self) -> None:
        self.told.append("sent")

    def note_declined(self) -> None:
        self.told.append("declined")
        self._declined()
