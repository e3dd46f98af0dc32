"""Reads beside the rounds: a connection that broke meanwhile is none of the caller's business."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing

import pytest

from gateway.errors import LedgerUnavailable
from gateway.ledger.postgres.serving.ledger import PostgresReader
from gateway.ledger.postgres.session import connect
from tests.ledger.databases import CUT_OFF


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
