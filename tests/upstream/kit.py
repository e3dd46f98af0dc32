"""A receiver of a reply's body."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field


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
