"""Books in PostgreSQL have one connection, which may break or be pooled, and a server beside them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path

import pytest

from gateway.admin import keys
from gateway.base import ids
from gateway.extras.postgres import books as module
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.nodes import leave, register
from gateway.extras.postgres.session import connect, transaction
from gateway.ledger.records import LedgerError, Refused
from gateway.ledger.serving.ledger import ServingLedger
from tests.extras.postgres.cluster import Bouncer, Cluster, name_of, run_bouncer
from tests.extras.postgres.databases import CUT_OFF, wait_for_lock
from tests.extras.postgres.fixtures import need_bouncer
from tests.extras.postgres.shared import Shared, admission, make_shared, settlement
from tests.support.waiting import until


@pytest.fixture
def books(ledger_url: str) -> Iterator[PostgresBooks]:
    with PostgresBooks(ledger_url) as books:
        books.accounts.create("a", credit_nano=5, operator=False)
        yield books


def test_a_connection_that_broke_is_made_anew(books: PostgresBooks, ledger_url: str) -> None:
    """The verb that finds it broken says so; the next one works."""
    with closing(connect(ledger_url)) as session:
        session.run(CUT_OFF)
    with pytest.raises(LedgerError, match="the ledger cannot be used: "):
        books.accounts.read("a")
    assert books.accounts.read("a").balance_nano == 5
    books.entries.post("a", "credit", 2, note="")
    assert books.accounts.read("a").balance_nano == 7


def test_a_change_whose_connection_broke_goes_on_with_no_other(
    books: PostgresBooks, ledger_url: str
) -> None:
    """Its last statements would be committed, and its first ones lost."""
    with closing(connect(ledger_url)) as session, suppress(LedgerError), books.changing():
        books.entries.post("a", "credit", 2, note="")
        session.run(CUT_OFF)
        for _ in range(2):  # the first finds it broken
            with pytest.raises(LedgerError, match="the ledger cannot be used: "):
                books.insert_numbered("accounts", {"name": "b", "created_ms": 0})
    assert [(one.name, one.balance_nano) for one in books.accounts.read_all()] == [("a", 5)]


def test_the_wait_for_other_changes_is_no_setting_of_the_connection(
    books: PostgresBooks, ledger_url: str
) -> None:
    """A pool gives the connection to others, and one that breaks is made anew."""
    books.wait_for_others(1)
    books.entries.post("a", "credit", 2, note="")
    assert books.read_rows("SELECT json_agg(current_setting('lock_timeout'))", ()) == ["0"]
    with closing(connect(ledger_url)) as session:
        session.run(CUT_OFF)
        with pytest.raises(LedgerError):
            books.accounts.read("a")
        with transaction(session), pytest.raises(LedgerError, match="another program has locked"):
            books.entries.post("a", "credit", 2, note="")


def test_a_change_sees_what_the_one_before_it_did(
    books: PostgresBooks, ledger_url: str, postgres: Cluster
) -> None:
    """Whatever the default isolation level is: else a credit that is repeated would be doubled."""
    name = name_of(ledger_url)
    postgres.run_sql(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable'")

    def repeat() -> None:
        with PostgresBooks(ledger_url) as again:
            again.entries.post("a", "credit", 2, note="", idempotency_key="once")

    with closing(connect(ledger_url)) as looker, ThreadPoolExecutor(1) as thread:
        with books.changing():
            repeated = thread.submit(repeat)
            wait_for_lock(looker, repeated)
            books.entries.post("a", "credit", 2, note="", idempotency_key="once")
        repeated.result(10)
    assert books.accounts.read("a").balance_nano == 7


def test_a_backup_is_the_servers_affair(books: PostgresBooks, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="pg_dump"):
        books.back_up(tmp_path / "copy.db")


def test_its_size_is_that_of_the_database(books: PostgresBooks) -> None:
    size, log_size = books.measure()
    assert size > 1_000_000
    assert log_size == 0


def test_a_change_is_waited_for_where_somebody_serves(
    books: PostgresBooks, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr(time, "sleep", slept.append)
    books.wait_in_force()
    with closing(connect(ledger_url)) as session:
        node = register(session)
        books.wait_in_force()
        leave(session, node)
    books.wait_in_force()
    assert slept == [module.IN_FORCE_SECONDS]


SOON_SECONDS = 5.0
"""In which a busy machine, too, has what takes a second at most."""
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
    """A new key works at once, and what is revoked or suspended ends soon."""
    ledger = pooled[0]
    with shared.open_books() as books:
        new = keys.add_key(books, "a")
        await ledger.refresh()
        key = ledger.find_key(ids.digest(new.secret))
        assert key is not None
        books.keys.revoke(new.key.id)
        began = time.monotonic()
        await until(lambda: key.revoked_ms is not None, "the revocation")
        books.accounts.suspend("a")
        await until(lambda: key.account.suspended, "the suspension")
    assert time.monotonic() - began < SOON_SECONDS


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
