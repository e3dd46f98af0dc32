"""Faults of the gateway itself within a completion: nobody pays, and the log names them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import aiohttp
import pytest

from gateway.admin import keys
from gateway.upstream.demo import DemoForwarder
from tests.console.kit import CREDIT_NANO, HOLDER, Console, open_console


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as console:
        yield console


@pytest.fixture
def secret(console: Console) -> str:
    with console.open_books() as books:
        return keys.add_key(books, HOLDER).secret


async def fail(*_: object) -> None:
    raise KeyError("a bug")


async def wait_for_key(console: Console, secret: str) -> None:
    """A new key works once the server has looked."""
    while (await console.complete(secret, model="none")).status == 401:  # noqa: ASYNC110 - likewise
        await asyncio.sleep(0.01)


async def read_end(console: Console) -> tuple[object, ...]:
    """State, outcome and cost of the one request, and the account's balance, once it is settled."""
    sql = "SELECT state, outcome, cost_nano, balance_nano FROM requests r, accounts a WHERE r.account_id = a.id"
    while True:
        with closing(sqlite3.connect(console.database)) as connection:
            rows = connection.execute(sql).fetchall()
        if rows and rows[0][0] != "pending":
            (row,) = rows
            return tuple(row)
        await asyncio.sleep(0.01)


FREE = ("voided", "internal_error", 0, CREDIT_NANO)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fault_on_the_way_to_the_provider_is_a_500_and_free(
    console: Console,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    stream: bool,
) -> None:
    await wait_for_key(console, secret)
    monkeypatch.setattr(DemoForwarder, "open", fail)
    reply = await console.complete(secret, stream=stream)
    assert reply.status == 500
    assert "a bug" not in reply.body.decode()
    assert await read_end(console) == FREE
    assert "the relay failed" in caplog.text


@pytest.mark.parametrize("stream", [False, True])
async def test_a_fault_at_the_end_is_free_and_never_a_clean_end(
    console: Console,
    secret: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    *,
    stream: bool,
) -> None:
    """Before the head it is a status; a stream that has begun is cut."""
    await wait_for_key(console, secret)
    monkeypatch.setattr("gateway.api.completions.conclude", fail)
    if stream:
        with pytest.raises(aiohttp.ClientPayloadError):
            await console.complete(secret, stream=True)
        assert "the stream could not be ended" in caplog.text
    else:
        assert (await console.complete(secret)).status == 500
    assert await read_end(console) == FREE
