"""What the ledger's tests share: a database with an account and a key, and ready-made records."""

from __future__ import annotations

import asyncio
import functools
import sqlite3
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from pathlib import Path

from gateway import accounts, apikeys
from gateway.ledger.base import Admission, Hold, Key, Outcome, Settlement
from gateway.ledger.sqlite import SqliteLedger
from gateway.ledger.thread import run_on_thread
from gateway.money import Price, Tokens

PRICE = Price(input=150, output=600, cached_input=75, cache_write=150, request=3)
TOKENS = Tokens(input=100, cached_input=20, cache_write=5, output=50)
_numbers = count(1)


@dataclass(frozen=True)
class Place:
    """A database with the account `a` and one key of it."""

    path: Path
    key_id: str
    digest: bytes


def make_place(folder: Path, *, credit_nano: int = 10**12, cap_nano: int | None = None) -> Place:
    """Made once for each credit and cap, then copied: a database costs a dozen fsyncs."""
    content, key_id, digest = _make_database(credit_nano, cap_nano)
    path = folder / "gateway.db"
    path.write_bytes(content)
    return Place(path, key_id, digest)


@functools.cache
def _make_database(credit_nano: int, cap_nano: int | None) -> tuple[bytes, str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gateway.db"
        with accounts.open_books(path, create=True) as books:
            accounts.add_account(books, "a", credit_nano=credit_nano)
            new = accounts.add_key(books, "a", cap_nano=cap_nano)
        return path.read_bytes(), new.key.id, apikeys.digest(new.secret)


def find_key(ledger: SqliteLedger, place: Place) -> Key:
    key = ledger.find_key(place.digest)
    assert key is not None
    return key


def admission(hold_nano: int = 1000, *, stream: bool = False, id_: str | None = None) -> Admission:
    return Admission(
        request_id=id_ or f"chatcmpl-{next(_numbers):012d}",
        model="demo/echo",
        provider="demo",
        price=PRICE,
        hold_nano=hold_nano,
        stream=stream,
        started_ms=1_700_000_000_000,
    )


def settlement(
    cost_nano: int, *, outcome: Outcome = "complete", ended_ms: int = 1_700_000_001_000
) -> Settlement:
    return Settlement(
        outcome=outcome,
        provider="demo",
        attempts=1,
        status=200,
        tokens=TOKENS,
        cost_nano=cost_nano,
        estimated=False,
        first_byte_ms=12,
        ended_ms=ended_ms,
    )


def void() -> Settlement:
    return settlement(0, outcome="upstream_error")


async def charge(ledger: SqliteLedger, key: Key, cost_nano: int, *, hold_nano: int = 1000) -> Hold:
    hold = ledger.hold(key, admission(hold_nano))
    await ledger.settle(hold, settlement(cost_nano))
    return hold


async def run_sql(ledger: SqliteLedger, sql: str) -> None:
    """Run a statement on the ledger's own connection: how a test breaks it."""

    def run(connection: sqlite3.Connection) -> None:
        connection.execute(sql).fetchall()

    await run_on_thread(ledger._writer._database, run)


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


async def until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for something that no event announces."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)


def assert_sound(path: Path) -> None:
    with accounts.open_books(path) as books:
        assert accounts.audit(books).problems == ()
