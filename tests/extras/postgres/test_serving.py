"""The ledger on PostgreSQL: how it opens and serves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.feed import ChangeFeed
from gateway.extras.postgres.serving import PostgresReader, open_postgres
from gateway.extras.postgres.session import Session, connect
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.memory import Snapshot
from tests.extras.postgres.databases import CUT_OFF, ask
from tests.ledger.contract.kit import WAIT_SECONDS, admission, create_key, find_key, void

NODES = "SELECT count(*) FROM nodes WHERE ended_at IS NULL"
CONNECTIONS = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"


@pytest.fixture
def digest(ledger_url: str) -> bytes:
    with PostgresBooks(ledger_url) as books:
        books.accounts.create("a", credit_nano=5000, operator=False)
        return create_key(books, "a")


async def test_a_node_comes_and_goes(ledger_url: str) -> None:
    told: list[str] = []
    with closing(connect(ledger_url)) as session:
        async with open_postgres(ledger_url, tell=told.append) as ledger:
            assert ask(session, NODES) == 1
            assert (ledger.writable, ledger.log_bytes) == (True, 0)
        assert ask(session, NODES) == 0
        async with asyncio.timeout(WAIT_SECONDS):
            while ask(session, CONNECTIONS) != 1:  # noqa: ASYNC110 - there is no event
                await asyncio.sleep(0.01)


async def test_an_empty_database_becomes_a_ledger(postgres_url: str) -> None:
    async with open_postgres(postgres_url) as ledger:
        assert list(ledger.accounts()) == []


async def test_the_time_is_the_databases(ledger_url: str, digest: bytes) -> None:
    """Unless a test has another."""
    async with open_postgres(ledger_url) as ledger:
        await ledger.settle(ledger.hold(find_key(ledger, digest), admission(id_="req_1")), void())
        await ledger.wait_admitted(ledger.hold(find_key(ledger, digest), admission(id_="req_2")))
    with closing(connect(ledger_url)) as session:
        age = "SELECT now() - to_timestamp(ended_ms / 1000) < INTERVAL '1 minute' FROM requests"
        assert ask(session, f"{age} WHERE id = 'req_2'") is True


async def test_settings_that_can_lose_what_was_committed_are_warned_of(
    ledger_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The tests' server has these limits."""
    async with open_postgres(ledger_url):
        assert "its setting fsync is off, so a crash loses what was committed" in caplog.text


async def test_it_is_a_node_once_it_has_read_all(
    ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A million keys take longer than others wait for a sign of life."""
    nodes: list[object] = []

    def read_all(feed: ChangeFeed, session: Session, now_ms: int) -> Snapshot:
        nodes.append(ask(session, NODES))
        return read(feed, session, now_ms)

    read = ChangeFeed.read_all
    monkeypatch.setattr(ChangeFeed, "read_all", read_all)
    async with open_postgres(ledger_url):
        assert nodes == [0]


async def test_a_server_that_is_not_there_is_named(ledger_url: str) -> None:
    name = ledger_url.rpartition("/")[2]
    with pytest.raises(LedgerError, match=f'database "{name}x" does not exist'):
        async with open_postgres(f"{ledger_url}x"):
            pass


@pytest.fixture
async def reader(ledger_url: str) -> AsyncIterator[PostgresReader]:
    reader = PostgresReader(ledger_url)
    yield reader
    await reader.close()


async def test_a_connection_that_broke_is_made_anew(
    reader: PostgresReader, ledger_url: str
) -> None:
    assert await reader.read_receipt("req_1") is None
    with closing(connect(ledger_url)) as session:
        session.run(CUT_OFF)
    assert await reader.read_receipt("req_1") is None
    assert await reader.read_ended_key(b"d" * 32) is None


async def test_what_cannot_be_read_is_an_outage_until_it_can(
    reader: PostgresReader, ledger_url: str
) -> None:
    with closing(connect(ledger_url)) as session:
        session.run("ALTER TABLE requests RENAME TO gone")
        with pytest.raises(LedgerUnavailable):
            await reader.read_receipt("req_1")
        session.run("ALTER TABLE gone RENAME TO requests")
    assert await reader.read_receipt("req_1") is None


async def test_a_server_that_is_not_there_is_an_outage() -> None:
    reader = PostgresReader("postgresql://gateway@127.0.0.1:1/gateway")
    with pytest.raises(LedgerUnavailable):
        await reader.read_receipt("req_1")
    await reader.close()
