"""Answers of the database that are lost: what became of a call is looked up, and never repeated blindly.

`played/store.txt` has what becomes of one round, and `played/nodes.txt` of a call that comes late.
"""

from __future__ import annotations

import asyncio
import random

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.ledger.serving.ledger import ServingLedger
from tests.extras.postgres.cluster import Cluster, name_of
from tests.extras.postgres.severing import Cut, run_line
from tests.extras.postgres.shared import admission, make_shared, settlement
from tests.support.waiting import until

CREDIT = 10**9
FULL = 1500
FULL_BELOW = CREDIT * 3 // 4
"""Less than the credit, and more than another node leaves of it."""
SHORT_SECONDS = 0.3
REQUESTS = 120
CALLERS = 12
CHANCE = 0.25


@pytest.mark.parametrize("commit_seconds", [5, SHORT_SECONDS])
async def test_random_cuts_lose_and_double_nothing(
    postgres: Cluster, postgres_url: str, commit_seconds: float
) -> None:
    """Neither charges nor what the database says of a hold: half of them are full, for what others hold."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    draw, shared = random.Random(seed), make_shared(postgres_url, credit_nano=CREDIT)
    owed: dict[str, int] = {}
    numbers = iter(range(REQUESTS))

    async def call_on(ledger: ServingLedger) -> None:
        for number in numbers:
            stream, full_nano = draw.random() < 0.5, draw.choice((0, FULL))
            asked = admission(stream=stream, full_nano=full_nano, full_below_nano=FULL_BELOW)
            try:
                hold = ledger.hold(shared.find_key(ledger), asked)
            except LedgerUnavailable:
                await asyncio.sleep(0.02)  # a caller's pause before its next try
                continue
            owed[asked.request_id] = 0
            try:
                await ledger.confirm(hold)
            except LedgerUnavailable:
                continue
            assert hold.amount_nano == (full_nano or asked.hold_nano)
            cost_nano = draw.randrange(1, 3000) if number % 7 else 0
            owed[asked.request_id] = cost_nano
            try:
                await ledger.settle(hold, settlement(cost_nano, withdraw_if_late=not stream))
            except LedgerUnavailable:
                if not stream:
                    owed[asked.request_id] = 0

    async with run_line(postgres.port) as (line, port), shared.serve() as other:
        theirs = other.hold(shared.find_key(other), admission(CREDIT // 2))
        await other.confirm(theirs)
        url = f"postgresql://gateway@127.0.0.1:{port}/{name_of(shared.url)}"
        async with shared.serve(url=url, commit_seconds=commit_seconds) as ledger:
            line.choose = lambda _: draw.choice([*Cut]) if draw.random() < CHANCE else None
            await asyncio.gather(*(call_on(ledger) for _ in range(CALLERS)))
            line.choose = lambda _: None
            await until(lambda: not ledger.open_holds, "all ends to be written")
        await other.settle(theirs, settlement(0))
    print(dict(line.cuts))
    assert line.cuts
    net = dict(shared.query(
        "SELECT request_id, -sum(amount_nano)::bigint FROM entries"
        " WHERE request_id IS NOT NULL GROUP BY 1"
    ))  # fmt: skip
    assert {id_: net.get(id_, 0) for id_ in owed} == owed
    assert {id_ for id_, nano in net.items() if nano} <= owed.keys()
    assert shared.read_balance() == CREDIT - sum(owed.values())
    shared.assert_sound()
