"""Locks of strangers, and backends that stop: who waits for them, for how long, and who does not."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, closing, contextmanager, suppress
from dataclasses import replace
from typing import cast

import pytest

from gateway.admin import keys
from gateway.base import ids
from gateway.base.errors import LedgerUnavailable
from gateway.extras.postgres.serving import open_postgres
from gateway.extras.postgres.session import connect
from gateway.ledger.base import Hold, Key
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import KeyTerms, Limits
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.ledger import ServingLedger
from tests.extras.postgres.databases import ask
from tests.extras.postgres.shared import Shared, admission, make_shared, settlement
from tests.support.waiting import until

CREDIT = 10**12
WAIT_SECONDS = 2.0
"""How long callers of these nodes wait, in place of 5 s."""
SOON_SECONDS = 1.8
"""A round that finds a lock takes 0.2 s, its second try a little; shorter than `WAIT_SECONDS`."""
SILENCE_SECONDS = 1.0
"""After which a node counts as dead, in place of 5 s."""
OF_A = "account_id = (SELECT id FROM accounts WHERE name = 'a')"
LOCKS = {
    "the account": "UPDATE accounts SET name = name WHERE name = 'a'",
    "its budget": f"UPDATE budgets SET amount_nano = amount_nano WHERE {OF_A}",
    "its requests": f"SELECT FROM requests WHERE {OF_A} FOR UPDATE",
    "its rates": f"UPDATE rates SET tokens_limit = tokens_limit WHERE {OF_A}",
    "its sums of the hour": f"UPDATE hourly SET requests = requests WHERE {OF_A}",
}


@pytest.fixture
def shared(postgres_url: str) -> Shared:
    """Return a ledger with the accounts `a` and `b`, which is the `b` of `find_b`."""
    shared = make_shared(postgres_url, credit_nano=CREDIT)
    with shared.open_books() as books:
        budget = books.keys.budgets.insert(1, "all", Allowance(CREDIT, "month"))
        (key,) = books.keys.read_all("a")
        books.keys.edit(key.id, {"budget_id": budget})
        books.accounts.create("b", credit_nano=CREDIT)
    return shared


def make_other(shared: Shared) -> Shared:
    with shared.open_books() as books:
        return Shared(shared.url, ids.digest(keys.add_key(books, "b", KeyTerms()).secret))


@contextmanager
def locking(shared: Shared, sql: str) -> Iterator[None]:
    """Hold a lock as a client does that somebody left open."""
    with closing(connect(shared.url)) as stranger:
        stranger.run(f"BEGIN; {sql}")
        yield
        stranger.run("ROLLBACK")


async def admit(ledger: ServingLedger, key: Key) -> Hold:
    rate = Limits(requests_per_minute=10**6, tokens_per_minute=10**6, concurrency=50)
    hold = ledger.hold(key, replace(admission(), account_rate=rate, expected_tokens=3))
    await ledger.confirm(hold)
    return hold


async def charge(ledger: ServingLedger, key: Key) -> None:
    hold = await admit(ledger, key)
    await ledger.settle(hold, settlement(7))


@asynccontextmanager
async def serving(shared: Shared) -> AsyncIterator[ServingLedger]:
    async with shared.serve(commit_seconds=WAIT_SECONDS) as ledger:
        yield ledger


@pytest.mark.parametrize("what", LOCKS)
async def test_only_the_locked_account_waits(shared: Shared, what: str) -> None:
    """On the node that has its requests, and on others; its charges come in when the lock goes."""
    other = make_other(shared)
    async with serving(shared) as ledger, serving(shared) as elsewhere:
        a, b = shared.find_key(ledger), other.find_key(ledger)
        await charge(ledger, a)
        stream = await admit(ledger, a)
        with locking(shared, LOCKS[what]):
            ended = ledger.settle(stream, settlement(5))
            for node in (ledger, elsewhere):
                begun = time.monotonic()
                await asyncio.gather(*(charge(node, other.find_key(node)) for _ in range(9)))
                assert time.monotonic() - begun < SOON_SECONDS
            assert not ended.done()
            with pytest.raises(LedgerUnavailable):
                await ended
            await asyncio.sleep(SILENCE_SECONDS)
            with pytest.raises(LedgerUnavailable):
                ledger.hold(a, admission())  # so long after, at once
            assert ledger.writable
            await charge(ledger, b)
        await until(lambda: stream.resolved, "the charge")
        await charge(ledger, a)
    assert shared.read_balance() == CREDIT - 7 - 5 - 7
    shared.assert_sound()


async def test_an_operator_is_told_of_the_lock_and_changes_other_accounts(shared: Shared) -> None:
    """While the change waits for the row, no round is under way: so it does not wait for long."""
    other = make_other(shared)
    async with serving(shared) as ledger:
        with locking(shared, LOCKS["the account"]), shared.open_books() as books:
            with pytest.raises(LedgerError, match="another program has locked"):
                await asyncio.to_thread(books.entries.credit, "a", 5)
            books.entries.credit("b", 5)
            await charge(ledger, other.find_key(ledger))


async def test_a_node_stops_while_an_account_is_locked(shared: Shared) -> None:
    """Rows that it cannot write are lost with it: the node that takes over interrupts them."""
    with locking(shared, "SELECT"):
        async with serving(shared) as ledger:
            stream = await admit(ledger, shared.find_key(ledger))
            stranger = connect(shared.url)
            stranger.run(f"BEGIN; {LOCKS['the account']}")
            _ = ledger.settle(stream, settlement(5))
        stranger.close()
    async with shared.serve(silence_seconds=0.5):
        await until(
            lambda: shared.query("SELECT outcome FROM requests") == [("interrupted",)], "it"
        )
    shared.assert_sound()


@pytest.mark.parametrize("table", ["accounts", "nodes"])
async def test_a_locked_table_stops_all_in_time_and_ends_no_node(
    shared: Shared, table: str
) -> None:
    async with AsyncExitStack() as stack:
        nodes = [
            await stack.enter_async_context(
                shared.serve(commit_seconds=WAIT_SECONDS, silence_seconds=SILENCE_SECONDS)
            )
            for _ in range(2)
        ]
        with locking(shared, f"LOCK TABLE {table}"):
            for node in nodes:
                begun = time.monotonic()
                with pytest.raises(LedgerUnavailable):
                    await charge(node, shared.find_key(node))
                assert time.monotonic() - begun < 2 * WAIT_SECONDS
            await asyncio.sleep(2 * SILENCE_SECONDS)  # long enough to be taken for dead
        await until(lambda: not any(node.open_holds for node in nodes), "what was refused")
        for node in nodes:
            await charge(node, shared.find_key(node))
    shared.assert_sound()


async def test_a_stopped_backend_is_left_for_another_one(shared: Shared) -> None:
    """The node notices before its callers do, and long before others could take it over."""
    async with open_postgres(shared.url, notice_seconds=0.5) as ledger:
        key = shared.find_key(ledger)
        await charge(ledger, key)
        ((pid,),) = shared.query(
            "SELECT pid FROM pg_stat_activity WHERE query NOT LIKE 'LISTEN%%'"
            " AND pid <> pg_backend_pid() AND datname = current_database()"
        )
        os.kill(pid, signal.SIGSTOP)
        try:
            await charge(ledger, key)
        finally:
            os.kill(pid, signal.SIGCONT)
        await until(lambda: not ledger.open_holds, "its end")
    assert shared.read_balance() == CREDIT - 7 - 7
    shared.assert_sound()


async def test_a_backend_that_stops_with_its_locks_keeps_the_node_alive(shared: Shared) -> None:
    """Its round may be committed yet, so the node waits, refuses in time, and says that it lives."""
    other = make_other(shared)
    async with (
        open_postgres(
            shared.url, commit_seconds=WAIT_SECONDS, notice_seconds=0.3, silence_seconds=2.0
        ) as ledger,
        shared.serve(silence_seconds=2.0) as elsewhere,
    ):
        with closing(connect(shared.url)) as stranger:
            stranger.run(f"BEGIN; {LOCKS['the account']}")
            hold = ledger.hold(shared.find_key(ledger), admission())
            waiting = "SELECT max(pid) FROM pg_locks WHERE NOT granted AND locktype <> 'advisory'"
            await until(lambda: ask(stranger, waiting) is not None, "its round to wait")
            pid = cast("int", ask(stranger, waiting))
            os.kill(pid, signal.SIGSTOP)
            try:
                begun = time.monotonic()
                with pytest.raises(LedgerUnavailable):
                    await ledger.confirm(hold)
                assert time.monotonic() - begun < 2 * WAIT_SECONDS
                await charge(elsewhere, other.find_key(elsewhere))
                await asyncio.sleep(3)  # longer than the silence of a dead node
            finally:
                os.kill(pid, signal.SIGCONT)
            assert ask(stranger, "SELECT count(*) FROM nodes WHERE ended_at IS NULL") == 2
            stranger.run("ROLLBACK")
        await until(lambda: not ledger.open_holds, "what was refused")
        await charge(ledger, shared.find_key(ledger))
    shared.assert_sound()


async def test_a_receipt_is_read_or_refused_in_time(
    shared: Shared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.extras.postgres.serving.COMMIT_SECONDS", 0.5)
    async with serving(shared) as ledger:
        hold = await admit(ledger, shared.find_key(ledger))
        await ledger.settle(hold, settlement(7))
        id_ = hold.admission.request_id
        with locking(shared, "LOCK TABLE requests"):
            begun = time.monotonic()
            reads = [ledger.read_receipt(id_) for _ in range(3)]
            told = await asyncio.gather(*reads, return_exceptions=True)
            assert [type(one) for one in told] == [LedgerUnavailable] * 3
            assert time.monotonic() - begun < SOON_SECONDS
        with suppress(LedgerUnavailable):  # behind those that were broken off
            await ledger.read_receipt(id_)
        assert await ledger.read_receipt(id_) is not None
