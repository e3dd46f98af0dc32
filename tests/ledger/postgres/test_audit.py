"""Each check that only this database has finds what it is for."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from typing import Final

import pytest

from gateway.ledger import Allowance, KeyTerms
from gateway.ledger.postgres.audit import CHECKS, run_audit
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.serving.ledger import PostgresLedger
from gateway.ledger.postgres.session import Session, connect
from tests.ledger.contract.kit import NOW_MS, admission, charge, create_key, find_key
from tests.ledger.databases import ask

UNRULED: Final = "ALTER TABLE {0} DISABLE TRIGGER USER"
BREAKS: Final = {
    "cost is 70": "UPDATE requests SET web_searches = 9, web_search_price_nano = 4611686018427387904"
    " WHERE state = 'posted'",
    "account 1: held is 1001, its": "UPDATE accounts SET held_nano = held_nano + 1",
    "account 1: held is 1000, its": "UPDATE accounts SET in_flight = in_flight + 1",
    "key key_": "UPDATE keys SET held_nano = held_nano + 1",
    "budget 1: held is 1001, its": "UPDATE budgets SET held_nano = held_nano + 1",
    "it has no key of its account": "UPDATE requests SET key_id = 'key_gone' WHERE state = 'posted'",
    "it has no account": "UPDATE entries SET account_id = 9 WHERE kind = 'charge'",
    "charged 2 times": (
        "INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, request_id,"
        " created_ms) SELECT account_id, kind, amount_nano, balance_after_nano, request_id,"
        " CAST(extract(epoch FROM now()) * 1000 AS bigint) FROM entries WHERE kind = 'charge'"
    ),
}


@pytest.fixture
async def session(ledger_url: str) -> AsyncIterator[Session]:
    """A ledger that is served from, with a charge and a request in flight."""
    with PostgresBooks(ledger_url, clock=lambda: NOW_MS) as books:
        books.accounts.create("a", credit_nano=5000, operator=False)
        team = books.budgets.create("a", "team", Allowance(1000, "day"))
        digest = create_key(books, "a", KeyTerms(budget_id=team.id))
    async with PostgresLedger.open(ledger_url, clock=lambda: NOW_MS) as ledger:
        await charge(ledger, find_key(ledger, digest), 70)
        await ledger.wait_admitted(ledger.hold(find_key(ledger, digest), admission()))
        with closing(connect(ledger_url)) as session:
            yield session


def test_each_check_is_broken_below() -> None:
    assert len(BREAKS) == len(CHECKS) + 1, "that of accounts by its two columns"


@pytest.mark.parametrize(("problem", "change"), BREAKS.items(), ids=BREAKS)
async def test_each_break_is_found(session: Session, problem: str, change: str) -> None:
    before = ask(session, "SELECT count(*) FROM checkpoints")
    report = run_audit(session, full=True, now_ms=NOW_MS)
    assert (report.problems, report.pending) == ((), 1)
    checkpoints = ask(session, "SELECT count(*) FROM checkpoints")
    assert checkpoints != before
    session.run("BEGIN")
    for table in ("requests", "entries"):
        session.run(UNRULED.format(table))
    session.run(change)
    session.run("COMMIT")
    report = run_audit(session, full=True, now_ms=NOW_MS)
    assert [one for one in report.problems if problem in one], report.problems
    assert not session.in_transaction
    assert ask(session, "SELECT count(*) FROM checkpoints") == checkpoints


async def test_a_failure_leaves_no_transaction(session: Session) -> None:
    session.run("ALTER TABLE retention RENAME TO gone")
    with pytest.raises(Exception, match="retention"):
        run_audit(session, full=True, now_ms=NOW_MS)
    assert not session.in_transaction
