"""Crowds on several nodes: little money for many requests."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from dataclasses import dataclass
from typing import Final

from gateway.admin import keys
from tests.extras.postgres.fleet import MODEL, Fleet, Node
from tests.support import replies
from tests.support.chat import say
from tests.support.upstream import Drip, Exchange, Script

CROWD: Final = 1000
HOLDS: Final = 10
HELD_AT_ONCE: Final = HOLDS + 1
"""The last one may take the balance below zero."""
REFUSALS: Final = frozenset({402, 429})


@dataclass(frozen=True, slots=True)
class Burst:
    """The fate of one crowd of requests."""

    seed: int
    statuses: Counter[int]
    peak: int
    """The most requests that were at the provider at once."""

    @property
    def is_plain(self) -> bool:
        """Return whether each was served, or refused for want of money."""
        return self.statuses[200] > 0 and self.statuses.keys() <= {200, *REFUSALS}


async def play_burst(fleet: Fleet, number: int, crowd: int = CROWD) -> Burst:
    """Send a crowd at once to all nodes, on a new account with money for ten."""
    draw = random.Random(number)
    fleet.upstream.always(lambda exchange: _answer(exchange, draw))
    body = say(MODEL, "number 1")
    reply = await fleet.nodes[0].chat(fleet.callers["rich"].key, body)
    ((hold_nano,),) = fleet.query("SELECT hold_nano FROM requests WHERE id = %s", reply.request_id)
    with fleet.open_books() as books:
        books.accounts.create(f"crowd-{number}", credit_nano=HOLDS * hold_nano)
        key = keys.add_key(books, f"crowd-{number}").secret

    async def ask(node: Node) -> int:
        return (await node.chat(key, body)).status

    fleet.upstream.peak = 0
    asked = [ask(draw.choice(fleet.alive)) for _ in range(crowd)]
    return Burst(number, Counter(await asyncio.gather(*asked)), fleet.upstream.peak)


def _answer(_: Exchange, draw: random.Random) -> Script:
    usage = replies.usage(draw.randint(1, 10), draw.randint(1, 1024))
    wait = Drip((b"",), draw.uniform(0.01, 0.2))
    return [wait, *replies.json_reply(replies.completion("Hello!", usage=usage))]
