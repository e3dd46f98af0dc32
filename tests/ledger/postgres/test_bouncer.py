"""PgBouncer in transaction mode between a node and the server: everything works, but LISTEN."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from gateway import ids
from gateway.admin import accounts, keys
from gateway.ledger.serving.ledger import ServingLedger
from tests.ledger.postgres.shared import Shared, admission, make_shared, settlement
from tests.support.databases import need_bouncer
from tests.support.postgres import Bouncer, Cluster, run_bouncer
from tests.support.waiting import until

SOON_SECONDS = 1.0
CALLERS = 20
CALLS = 10


@pytest.fixture
def shared(postgres_url: str) -> Shared:
    return make_shared(postgres_url)


@pytest.fixture
async def pooled(shared: Shared, bouncer: Bouncer) -> AsyncIterator[list[ServingLedger]]:
    """Two nodes behind the pool."""
    url = bouncer.url(shared.url)
    async with shared.serve(url=url) as first, shared.serve(url=url) as second:
        yield [first, second]


async def charge(ledger: ServingLedger, shared: Shared) -> None:
    hold = ledger.hold(shared.find_key(ledger), admission())
    await ledger.confirm(hold)
    await ledger.settle(hold, settlement(7))


async def test_rounds_go_through_a_pool(pooled: list[ServingLedger], shared: Shared) -> None:
    before = shared.read_balance()

    async def call_on(ledger: ServingLedger) -> None:
        for _ in range(CALLS):
            await charge(ledger, shared)

    await asyncio.gather(*(call_on(pooled[number % 2]) for number in range(CALLERS)))
    assert shared.read_balance() == before - CALLERS * CALLS * 7
    shared.assert_sound()


async def test_polls_find_what_listen_would_tell(
    pooled: list[ServingLedger], shared: Shared
) -> None:
    """A new key works at once, and what is revoked or suspended ends within a second."""
    ledger = pooled[0]
    with shared.open_books() as books:
        new = keys.add_key(books, "a")
        await ledger.refresh()
        key = ledger.find_key(ids.digest(new.secret))
        assert key is not None
        books.keys.revoke(new.key.id)
        began = time.monotonic()
        await until(lambda: key.revoked_ms is not None, "the revocation")
        accounts.suspend(books, "a")
        await until(lambda: key.account.suspended, "the suspension")
    assert time.monotonic() - began < 2 * SOON_SECONDS


async def test_a_pool_that_is_restarted_delays_charges_and_loses_none(
    postgres: Cluster, shared: Shared
) -> None:
    before = shared.read_balance()
    with run_bouncer(need_bouncer(), postgres, settings={"default_pool_size": 2}) as pool:
        async with shared.serve(url=pool.url(shared.url)) as ledger:
            hold = ledger.hold(shared.find_key(ledger), admission())
            await ledger.confirm(hold)
            await asyncio.to_thread(pool.stop)
            settled = ledger.settle(hold, settlement(7))
            await until(lambda: not ledger.writable, "the outage to be noticed")
            await asyncio.to_thread(pool.start)
            began = time.monotonic()
            await settled
            assert time.monotonic() - began < SOON_SECONDS
            await charge(ledger, shared)
    assert shared.read_balance() == before - 14
    shared.assert_sound()
