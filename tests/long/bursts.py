"""Crowds on several nodes: little money for many requests, and one account that all nodes charge."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from collections import Counter
from dataclasses import dataclass
from typing import Final

from gateway.admin import keys
from gateway.ledger.opening import open_books
from gateway.ledger.records import DatabaseUrl
from tests import ROOT
from tests.support import replies
from tests.support.chat import say
from tests.support.nodes import MODEL, Fleet, Node
from tests.support.postgres import Cluster
from tests.support.seed import Seed, seed
from tests.support.upstream import Drip, Exchange, Script

CROWD: Final = 1000
HOLDS: Final = 10
HELD_AT_ONCE: Final = HOLDS + 1
"""The last one may take the balance below zero."""
HOT_SECONDS: Final = 5.0
HOT_CALLERS: Final = 48
REFUSALS: Final = frozenset({402, 429})
HOT_NODE: Final = """
import asyncio, sys, time
from gateway.ids import digest
from gateway.ledger.postgres.serving import open_postgres
from tests.ledger.postgres.shared import admission, settlement

url, secret, callers, seconds = sys.argv[1:]

async def main():
    async with open_postgres(url) as ledger:
        key, done = ledger.find_key(digest(secret)), 0
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        end = time.monotonic() + float(seconds)
        async def call_on():
            nonlocal done
            while time.monotonic() < end:
                hold = ledger.hold(key, admission())
                await ledger.confirm(hold)
                await ledger.settle(hold, settlement(7))
                done += 1
        await asyncio.gather(*(call_on() for _ in range(int(callers))))
    print(done, flush=True)

asyncio.run(main())
"""


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


async def play_burst(fleet: Fleet, number: int) -> Burst:
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
    asked = [ask(draw.choice(fleet.alive)) for _ in range(CROWD)]
    return Burst(number, Counter(await asyncio.gather(*asked)), fleet.upstream.peak)


def _answer(_: Exchange, draw: random.Random) -> Script:
    usage = replies.usage(draw.randint(1, 10), draw.randint(1, 1024))
    wait = Drip((b"",), draw.uniform(0.01, 0.2))
    return [wait, *replies.json_reply(replies.completion("Hello!", usage=usage))]


async def measure_hot(cluster: Cluster, nodes: int) -> float:
    """Return how many requests of one account such nodes admit and charge a second, all together."""
    url = cluster.make_database()
    caller = seed(DatabaseUrl(url), (Seed("hot", 10**18),))["hot"]
    each = str(HOT_CALLERS // nodes)
    words = (sys.executable, "-c", HOT_NODE, url, caller.key, each, f"{HOT_SECONDS}")
    processes = [
        await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, cwd=ROOT
        )
        for _ in range(nodes)
    ]
    for one in processes:
        assert one.stdout is not None
        assert await one.stdout.readline() == b"ready\n"
    began = time.monotonic()
    outs = await asyncio.gather(*(one.communicate(b"go\n") for one in processes))
    seconds = time.monotonic() - began
    with open_books(DatabaseUrl(url)) as books:
        assert books.audit().problems == ()
    assert [one.returncode for one in processes] == [0] * nodes
    return sum(int(out) for out, _ in outs) / max(seconds, HOT_SECONDS)
