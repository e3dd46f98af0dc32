"""Several nodes on one database: what each of them decides."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import AsyncExitStack

import pytest

from gateway.base.errors import NoFunds
from gateway.ledger.serving.ledger import ServingLedger
from tests.extras.postgres.cluster import Cluster
from tests.extras.postgres.shared import Shared, admission, make_shared, settlement

CROWD = 200
CALLERS = 20
CALLS = 15


async def open_nodes(stack: AsyncExitStack, shared: Shared) -> list[ServingLedger]:
    return [await stack.enter_async_context(shared.serve()) for _ in range(3)]


@pytest.mark.parametrize("times", [1, 10, 10**6])
async def test_a_burst_over_all_nodes_overdraws_by_less_than_one_request(
    postgres_url: str, times: int
) -> None:
    """Each uses all that it may, whatever it held."""
    seed = random.randrange(2**32)
    print("seed:", seed)
    draw = random.Random(seed)
    credit_nano = draw.randrange(1, 40_000)
    shared, full = make_shared(postgres_url, credit_nano=credit_nano), [0]

    async def request(ledger: ServingLedger) -> None:
        hold_nano = draw.randrange(500)
        full_nano = hold_nano + draw.randrange(1, 2000)
        asked = admission(hold_nano, full_nano=full_nano, full_below_nano=times * full_nano)
        await asyncio.sleep(draw.uniform(0, 0.1))
        try:
            hold = ledger.hold(shared.find_key(ledger), asked)
            await ledger.confirm(hold)
        except NoFunds:
            return
        assert hold.amount_nano == hold.admission.hold_nano in {hold_nano, full_nano}
        full.append(full_nano)
        await asyncio.sleep(draw.uniform(0, 0.05))  # the provider
        await ledger.settle(hold, settlement(full_nano))

    async with AsyncExitStack() as stack:
        ledgers = await open_nodes(stack, shared)
        await asyncio.gather(*(request(draw.choice(ledgers)) for _ in range(CROWD)))
    assert -shared.read_balance() < max(full)
    shared.assert_sound()


async def test_all_nodes_charge_one_account_and_its_operator_too_without_a_deadlock(
    postgres: Cluster, postgres_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody is refused, and neither log speaks of it."""
    shared, told = make_shared(postgres_url), len(postgres.log)
    before = shared.read_balance()

    async def call_on(ledger: ServingLedger) -> None:
        for _ in range(CALLS):
            hold = ledger.hold(shared.find_key(ledger), admission())
            await ledger.confirm(hold)
            await ledger.settle(hold, settlement(7))

    def credit_on() -> None:
        with shared.open_books() as books:
            for _ in range(CALLS):
                books.entries.credit("a", 100)

    with caplog.at_level(logging.WARNING):
        async with AsyncExitStack() as stack:
            ledgers = await open_nodes(stack, shared)
            caplog.clear()  # the start tells of the server's settings
            await asyncio.gather(
                asyncio.to_thread(credit_on),
                *(call_on(ledgers[number % 3]) for number in range(CALLERS)),
            )
    assert caplog.messages == []
    assert "ERROR" not in postgres.log[told:]
    assert shared.read_balance() == before + CALLS * 100 - CALLERS * CALLS * 7
    shared.assert_sound()
