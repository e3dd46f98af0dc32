"""Several nodes on one database: what each of them decides, and what becomes of one that is silent."""

from __future__ import annotations

import asyncio
import logging
import random
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import psycopg
import pytest

from gateway.admin import accounts
from gateway.errors import BalanceHeld, InsufficientBalance, InternalError, LedgerUnavailable
from gateway.ledger.base import Hold
from gateway.ledger.postgres import nodes
from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.ledger import ServingLedger
from tests.ledger.postgres.shared import Shared, admission, make_shared, settlement
from tests.support.postgres import Cluster
from tests.support.waiting import until

HOLD = 1000
CROWD = 400
CREDIT = 10 * HOLD
SILENCE_SECONDS = 3.0
CALLERS = 20
CALLS = 15


@dataclass(slots=True)
class Tally:
    """The fate of a crowd of requests."""

    in_flight: int = 0
    peak: int = 0
    charged: int = 0
    held: int = 0
    spent: int = 0


async def admit(
    ledger: ServingLedger, shared: Shared, *, hold_nano: int = HOLD, full_nano: int = 0
) -> Hold:
    hold = ledger.hold(shared.find_key(ledger), admission(hold_nano, full_nano=full_nano))
    await ledger.confirm(hold)
    return hold


async def open_nodes(
    stack: AsyncExitStack, shared: Shared, count: int = 3, silence_seconds: float = 5
) -> list[ServingLedger]:
    return [
        await stack.enter_async_context(shared.serve(silence_seconds=silence_seconds))
        for _ in range(count)
    ]


async def fall_silent(stack: AsyncExitStack, shared: Shared) -> tuple[Session, nodes.Node]:
    """Return a node that never says again that it lives, with its connection."""
    session = await asyncio.to_thread(connect, shared.url)
    stack.callback(session.close)
    return session, nodes.register(session)


@pytest.mark.parametrize("seed", [1, 2, 3])
async def test_a_crowd_over_all_nodes_never_holds_more_than_there_is(
    postgres_url: str, seed: int
) -> None:
    shared, tally, draw = (
        make_shared(postgres_url, credit_nano=CREDIT),
        Tally(),
        random.Random(seed),
    )

    async def request(ledger: ServingLedger) -> None:
        cost_nano = draw.randint(HOLD // 10, HOLD)
        try:
            hold = await admit(ledger, shared)
        except BalanceHeld:
            tally.held += 1
            return
        except InsufficientBalance:
            tally.spent += 1
            return
        tally.in_flight += 1
        tally.peak = max(tally.peak, tally.in_flight)
        await asyncio.sleep(draw.uniform(0, 0.05))  # the provider
        tally.in_flight -= 1
        tally.charged += cost_nano
        await ledger.settle(hold, settlement(cost_nano))

    async with AsyncExitStack() as stack:
        ledgers = await open_nodes(stack, shared)
        await asyncio.gather(*(request(draw.choice(ledgers)) for _ in range(CROWD)))
    assert 0 < tally.peak <= CREDIT // HOLD
    assert tally.held > 0
    assert shared.read_balance() == CREDIT - tally.charged
    shared.assert_sound()


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
        except (BalanceHeld, InsufficientBalance):
            return
        assert hold.amount_nano == hold.admission.hold_nano in {hold_nano, full_nano}
        full.append(full_nano)
        await asyncio.sleep(draw.uniform(0, 0.05))  # the provider
        await ledger.settle(hold, settlement(full_nano))

    async with AsyncExitStack() as stack:
        ledgers = await open_nodes(stack, shared)
        await asyncio.gather(*(request(draw.choice(ledgers)) for _ in range(CROWD // 2)))
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
            await ledger.settle(await admit(ledger, shared), settlement(7))

    def credit_on() -> None:
        with shared.open_books() as books:
            for _ in range(CALLS):
                accounts.credit(books, "a", 100)

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


async def test_the_requests_of_silent_nodes_are_interrupted_once(postgres_url: str) -> None:
    shared = make_shared(postgres_url)
    async with AsyncExitStack() as stack:
        silent = [await fall_silent(stack, shared) for _ in range(2)]
        ledgers = await open_nodes(stack, shared, silence_seconds=SILENCE_SECONDS)
        kept = await admit(ledgers[0], shared)
        gone = [await admit(ledgers[1], shared, full_nano=3 * HOLD) for _ in range(2)]
        for (_, node), hold in zip(silent, gone, strict=True):
            shared.query(
                "UPDATE requests SET node_id = %s WHERE id = %s RETURNING 1",
                node.id,
                hold.admission.request_id,
            )
        await until(
            lambda: shared.query("SELECT count(*) FROM nodes WHERE ended_at IS NULL") == [(3,)],
            "both to be taken over",
        )
        shared.assert_sound(pending=1)
        assert sorted(shared.query("SELECT outcome FROM requests")) == [
            ("interrupted",), ("interrupted",), ("pending",),
        ]  # fmt: skip
        await ledgers[0].settle(kept, settlement(7))
        for session, node in silent:
            with pytest.raises(psycopg.Error, match="was taken over"):
                nodes.leave(session, node)
            with pytest.raises(psycopg.Error, match="was taken over"):
                nodes.renew(session, node)


async def test_a_node_that_was_taken_over_says_so_and_refuses(postgres_url: str) -> None:
    shared = make_shared(postgres_url)
    async with shared.serve() as ledger:
        hold = await admit(ledger, shared)
        shared.query("UPDATE nodes SET epoch = epoch + 1, ended_at = now() RETURNING 1")
        with pytest.raises(LedgerUnavailable) as refusal:
            await ledger.settle(hold, settlement(7))
        assert refusal.value.should_retry is False
        with pytest.raises(LedgerError, match=r"was taken over.* must be restarted"):
            await ledger.wait_ended()
        with pytest.raises(LedgerUnavailable):
            ledger.hold(shared.find_key(ledger), admission())
    assert shared.query("SELECT count(*) FROM entries WHERE kind = 'charge'") == [(0,)]


async def test_nobody_is_dead_because_the_database_was_away(postgres_url: str) -> None:
    """A node that was cut off as well waits a whole silence before it takes anybody over."""
    shared = make_shared(postgres_url)
    async with AsyncExitStack() as stack:
        silent = await fall_silent(stack, shared)
        mine = await fall_silent(stack, shared)
        past = "clock_timestamp() - interval '1 hour'"
        shared.query(f"UPDATE nodes SET seen_at = {past}, steady_at = {past} RETURNING 1")
        assert list(nodes.look_around(*mine, 1.0)) == []
        nodes.renew(*silent)
        nodes.leave(*silent)


async def test_a_node_that_joins_others_can_take_over_at_once(postgres_url: str) -> None:
    """It knows from them that the database was there; a row of nobody alive tells nothing."""
    shared = make_shared(postgres_url)
    past = "clock_timestamp() - interval '1 hour'"
    async with AsyncExitStack() as stack:
        _, dead = await fall_silent(stack, shared)
        shared.query(f"UPDATE nodes SET seen_at = {past}, steady_at = {past} RETURNING 1")
        first = await fall_silent(stack, shared)
        assert list(nodes.look_around(*first, 1.0)) == []
        shared.query(
            f"UPDATE nodes SET steady_at = {past} WHERE id = %s RETURNING 1",
            first[1].id,
        )
        second = await fall_silent(stack, shared)
        assert list(nodes.look_around(*second, 1.0)) == [], "it is suspected first"
        shared.query(f"UPDATE nodes SET suspected_at = {past} WHERE id = {dead.id} RETURNING 1")
        assert [one.id for one in nodes.look_around(*second, 1.0)] == [dead.id]


async def test_a_correction_raises_the_balance_that_others_know(postgres_url: str) -> None:
    shared = make_shared(postgres_url, credit_nano=1000)
    async with AsyncExitStack() as stack:
        one, other = await open_nodes(stack, shared, 2)
        hold = await admit(one, shared)
        await one.settle(hold, settlement(1000))
        with pytest.raises(InsufficientBalance):
            await admit(other, shared)
        await other.refresh()
        shared.query(
            "INSERT INTO changes (kind, id) SELECT 'account', id FROM accounts RETURNING 1"
        )
        await other.refresh()
        assert shared.find_key(other).account.balance_nano == 0
        id_ = hold.admission.request_id
        session = await asyncio.to_thread(connect, shared.url)
        stack.callback(session.close)
        node = nodes.register(session)
        session.execute("SELECT withdraw_charge(?, ?, 1, ?)", (node.id, node.epoch, id_))
        await until(lambda: shared.find_key(other).account.balance_nano == 1000, "the balance")
        nodes.leave(session, node)
    shared.assert_sound()


async def test_a_receipt_is_read_on_a_new_connection_if_the_last_one_ended(
    postgres_url: str,
) -> None:
    shared = make_shared(postgres_url)
    async with shared.serve() as ledger:
        hold = await admit(ledger, shared)
        await ledger.settle(hold, settlement(7))
        for _ in range(2):
            receipt = await ledger.read_receipt(hold.admission.request_id)
            assert receipt is not None
            assert receipt.cost_nano == 7
            with suppress(psycopg.Error):
                shared.query(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
                )


async def test_a_bad_end_fails_alone_among_requests_that_came_and_ended_together(
    postgres_url: str,
) -> None:
    shared = make_shared(postgres_url)
    before = shared.read_balance()
    async with shared.serve() as ledger:
        key = shared.find_key(ledger)
        first = ledger.hold(key, admission())  # its round is under way while the others come
        holds = [ledger.hold(key, admission()) for _ in range(3)]
        costs = (5, -1, 7)  # no charge can be below 0
        ends = [
            ledger.settle(hold, settlement(cost)) for hold, cost in zip(holds, costs, strict=True)
        ]
        told = await asyncio.gather(*ends, return_exceptions=True)
        assert [type(one) for one in told] == [type(None), InternalError, type(None)]
        await ledger.confirm(first)
        await ledger.settle(first, settlement(1))
        assert shared.read_balance() == before - 13
    shared.assert_sound()
