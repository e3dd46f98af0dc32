"""A ledger with accounts and keys, made through the contracts, for the tests of the contract."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from itertools import count
from typing import Final

from gateway.base.money import Price, Tokens
from gateway.base.prices import AppliedPrice
from gateway.ledger.base import COMMIT_SECONDS, Admission, Hold, Key, Settlement
from gateway.ledger.call_records import Outcome, Receipt
from gateway.ledger.key_records import KeyTerms, Limits
from gateway.ledger.records import EntryView, StoredSecret
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sql import rows
from gateway.ledger.sql.books import Books
from tests.ledger.contract.implementations import Implementation, find_implementations

WAIT_SECONDS: Final = 30.0
"""Limit for what must come, longer than it takes on a busy machine."""
SHORT_SECONDS: Final = 0.3
"""In place of the five seconds that a caller waits for a commit."""
NOW_MS: Final = 1_700_000_000_000
PRICE: Final = AppliedPrice(
    Price(input=150, output=600, cached_input=75, cache_write=150, request=3)
)
TOKENS: Final = Tokens(input=100, cached_input=20, cache_write=5, output=50)
NO_TERMS: Final = KeyTerms()

FIND_PLACE: Final = """
import sys
from tests.ledger.contract.kit import find_place
place = find_place(*sys.argv[1:3])
"""

_numbers = count(1)


class Place:
    """A ledger of one implementation, with an account `a` as long as no test makes others."""

    def __init__(self, implementation: Implementation, location: str) -> None:
        self.implementation = implementation
        self.location = location
        self.storage = implementation.make_storage(location)

    def serve(
        self, *, now_ms: int = NOW_MS, commit_seconds: float = COMMIT_SECONDS
    ) -> AbstractAsyncContextManager[ServingLedger]:
        return self.storage.serve(clock=lambda: now_ms, commit_seconds=commit_seconds)

    @asynccontextmanager
    async def serve_key(
        self, *, credit_nano: int = 10**12, commit_seconds: float = COMMIT_SECONDS
    ) -> AsyncIterator[tuple[ServingLedger, Key]]:
        """Serve a new account `a`, with one key."""
        digest = self.seed(credit_nano=credit_nano)
        async with self.serve(commit_seconds=commit_seconds) as ledger:
            yield ledger, find_key(ledger, digest)

    def open_books(self, *, now_ms: int = NOW_MS) -> Books:
        return self.storage.open_books(clock=lambda: now_ms)

    def add_account(self, name: str = "a", *, credit_nano: int = 10**12) -> int:
        with self.open_books() as books:
            return books.accounts.create(name, credit_nano=credit_nano, operator=False).id

    def add_key(self, account: str = "a", terms: KeyTerms = NO_TERMS) -> bytes:
        """Create a key and return its digest; its id is the digest's beginning."""
        with self.open_books() as books:
            return create_key(books, account, terms)

    def seed(self, *, credit_nano: int = 10**12, terms: KeyTerms = NO_TERMS) -> bytes:
        """Create the account `a` with one key and return the key's digest."""
        self.add_account(credit_nano=credit_nano)
        return self.add_key(terms=terms)

    def read_balance(self, account: str = "a") -> int:
        with self.open_books() as books:
            return books.accounts.read(account).balance_nano

    def read_entries(self, account: str = "a") -> list[EntryView]:
        """Return the latest first."""
        with self.open_books() as books:
            return books.entries.read_latest(account, 1000)

    def read_receipts(self) -> list[Receipt]:
        """Return those of all requests, the latest first."""
        with self.open_books() as books:
            ids = books.fetch("SELECT id FROM requests ORDER BY id DESC", ())
            found = [rows.read_receipt(books.connection, request_id=id_) for (id_,) in ids]
        return [one for one in found if one is not None]

    def assert_sound(self) -> None:
        with self.open_books() as books:
            assert books.audit().problems == ()

    @contextmanager
    def run_process(self, script: str, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
        """Run a script as another process, once it has said so; it is killed at the end.

        It gets its `place` from the first two arguments.
        """
        mine = (self.implementation.name, self.location)
        command = [sys.executable, "-c", FIND_PLACE + script, *mine, *arguments]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            try:
                assert process.stdout is not None
                assert process.stdout.readline() == b"ready\n"
                yield process
            finally:
                process.kill()


def find_place(name: str, location: str) -> Place:
    """Return the place of an implementation's name, for a script."""
    return Place(next(one for one in find_implementations() if one.name == name), location)


def create_key(books: Books, account: str, terms: KeyTerms = NO_TERMS) -> bytes:
    digest = os.urandom(32)
    books.keys.create(account, terms, StoredSecret(key_id_of(digest), digest, "last"))
    return digest


def key_id_of(digest: bytes) -> str:
    return f"key_{digest.hex()[:16]}"


def find_key(ledger: ServingLedger, digest: bytes) -> Key:
    key = ledger.find_key(digest)
    assert key is not None
    return key


def admission(
    hold_nano: int = 1000,
    *,
    stream: bool = False,
    id_: str | None = None,
    started_ms: int = NOW_MS,
    full_nano: int = 0,
    full_below_nano: int = 0,
    key_rate: Limits | None = None,
    account_rate: Limits | None = None,
    expected_tokens: int = 0,
) -> Admission:
    return Admission(
        request_id=id_ or f"req_{os.getpid():08d}{next(_numbers):08d}",
        model="demo/echo",
        provider="demo",
        price=PRICE,
        hold_nano=hold_nano,
        stream=stream,
        started_ms=started_ms,
        full_nano=full_nano,
        full_below_nano=full_below_nano,
        key_rate=key_rate,
        account_rate=account_rate,
        expected_tokens=expected_tokens,
    )


def settlement(
    cost_nano: int,
    *,
    outcome: Outcome = "complete",
    ended_ms: int = NOW_MS + 1000,
    withdraw_if_late: bool = False,
    provider_cost_nano: int | None = None,
    reported_cost_nano: int | None = None,
    tokens: Tokens = TOKENS,
) -> Settlement:
    return Settlement(
        outcome=outcome,
        provider="other",
        attempts=2,
        status=200,
        tokens=tokens,
        tool_calls={},
        price=AppliedPrice(Price(0, 0, 0, 0, cost_nano)),
        cost_nano=cost_nano,
        estimated=False,
        first_byte_ms=12,
        ended_ms=ended_ms,
        withdraw_if_late=withdraw_if_late,
        provider_cost_nano=provider_cost_nano,
        reported_cost_nano=reported_cost_nano,
    )


def void() -> Settlement:
    return settlement(0, outcome="upstream_error")


async def charge(ledger: ServingLedger, key: Key, cost_nano: int, *, hold_nano: int = 1000) -> Hold:
    hold = ledger.hold(key, admission(hold_nano))
    await ledger.settle(hold, settlement(cost_nano))
    return hold


async def read_receipt(ledger: ServingLedger, request_id: str) -> Receipt:
    receipt = await ledger.read_receipt(request_id)
    assert receipt is not None
    return receipt


async def until(condition: Callable[[], bool], seconds: float = WAIT_SECONDS) -> None:
    """Wait for something that no event announces."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110 - there is no event
            await asyncio.sleep(0.005)
