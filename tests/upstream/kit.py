"""Receivers of a reply's body, and requests to a scripted provider."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from gateway.base.deadlines import Clock, Life
from gateway.config.records import Provider
from gateway.dialects.exchanges import Exchange
from gateway.dialects.wire.records import Body
from gateway.upstream.attempt import Attempt
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.receivers import CollectedBody, Receiver, Wants
from tests.support.formats import EXCHANGES
from tests.support.upstream import ScriptedUpstream

EXCHANGE: Final = EXCHANGES["chat"]["chat"]


@dataclass(slots=True)
class Taker:
    """Takes all that comes; while it is `full` it asks to be waited for, until `room` is set."""

    full: bool = False
    satisfied: bool = False
    """It has all it needs after the next piece."""
    pieces: list[bytes] = field(default_factory=list)
    asked: asyncio.Event = field(default_factory=asyncio.Event)
    room: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)

    def receive(self, data: bytes) -> Wants:
        self.pieces.append(data)
        if self.satisfied:
            return Wants.NOTHING
        return Wants.ROOM if self.full else Wants.MORE

    async def unblock(self) -> None:
        self.asked.set()
        await self.room.wait()
        self.full = False

    def end(self) -> None:
        return


def make_attempt(
    provider: Provider,
    taker: Receiver | None = None,
    body: Body = b"{}",
    *,
    clock: Clock | None = None,
    exchange: Exchange = EXCHANGE,
    **facts: Any,
) -> Attempt:
    """Make an attempt whose reply `taker` takes."""
    clock = clock or Clock()
    return Attempt(provider, clock, exchange, body, lambda _: taker or Taker(), **facts)


@dataclass(slots=True)
class Way:
    """A forwarder to a scripted provider."""

    forwarder: HttpForwarder
    scripted: ScriptedUpstream

    def make_attempt(self, taker: Receiver | None = None, **facts: Any) -> Attempt:
        return make_attempt(self.forwarder.provider, taker, **facts)

    def begin(self, attempt: Attempt) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(self.forwarder.send(attempt))

    async def ask(self, opened: Callable[[], None] = lambda: None, **facts: Any) -> bytes:
        """Send a request and read its whole reply; it is `opened` when its head was read."""
        attempt, body = self.make_attempt(**facts), CollectedBody()

        def open_reply(_: str) -> Receiver:
            opened()
            return body

        attempt.open_reply = open_reply
        await self.forwarder.send(attempt)
        return body.take()


class TellingLife(Life):
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
