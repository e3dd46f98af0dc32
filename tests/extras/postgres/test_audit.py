"""PostgreSQL's audit proves more than the checks that both databases share."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("psycopg", reason="the extra `postgres` is not installed")

from psycopg import errors

from gateway.base.times import DAY_MS
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.nodes import register
from gateway.extras.postgres.schema import CHECKS, run_audit
from gateway.extras.postgres.session import Session, connect
from gateway.ledger.sql.audit import prove
from tests.extras.postgres.cluster import Cluster
from tests.extras.postgres.rounds import run_round, write_requests
from tests.ledger.contract.kit import NOW_MS, create_key, key_id_of, settlement, void
from tests.ledger.kit import read_spoiled
from tests.ledger.sql.requests import make_item

OVER_MS = NOW_MS + 40 * DAY_MS
"""In the next month but one."""


@pytest.fixture(scope="module")
def url(postgres: Cluster) -> Iterator[str]:
    """A database with two charges of 70, a void, two pending requests, a correction, a budget."""
    url = postgres.make_database()
    with PostgresBooks(url, create=True, clock=lambda: NOW_MS) as books:
        books.connection.execute("SELECT make_months(to_timestamp(?), 2)", (NOW_MS // 1000,))
        books.accounts.create("a", credit_nano=100_000)
        key = key_id_of(create_key(books, "a"))
        books.connection.execute(
            "INSERT INTO budgets (account_id, name, period, amount_nano, period_day, created_ms)"
            " VALUES (1, 'b', 'day', 9, 0, 0)"
        )
        ends = (settlement(70), settlement(70), void(), None)
        items = [make_item(1, key, NOW_MS, end) for end in ends]
        items.append(make_item(1, key, OVER_MS))
        write_requests(books._session, items, NOW_MS)
        corrected = items[0].hold.admission.request_id
        books.entries.post("a", "correction", 3, note="n", request_id=corrected)
    yield url
    postgres.drop_database(url)


@pytest.fixture
def session(url: str) -> Iterator[Session]:
    with closing(connect(url)) as session:
        yield session


@contextmanager
def taken_back(session: Session) -> Iterator[None]:
    """Take back what is changed, which no rule forbids meanwhile."""
    session.run("BEGIN")
    for table in ("entries", "requests"):
        session.run(f"ALTER TABLE {table} DISABLE TRIGGER USER")
    try:
        yield
    finally:
        session.run("ROLLBACK")


def test_sound_books_become_a_checkpoint(session: Session) -> None:
    report = run_audit(session, full=True, now_ms=7)
    assert (report.ok, report.problems) == (True, ())
    assert (report.accounts, report.entries, report.pending) == (1, 4, 2)
    assert session.execute("SELECT entry_id, created_ms FROM checkpoints").fetchall() == [(4, 7)]
    assert run_audit(session, full=False, now_ms=8).entries == 0, "all was proven before"


@pytest.mark.parametrize(("sql", "problem"), read_spoiled("in postgresql"))
def test_the_audit_names(session: Session, sql: str, problem: str) -> None:
    with taken_back(session):
        session.execute(sql)
        problems = prove(session, 0, full=True, kept_from_ms=0, more_checks=CHECKS).problems
    assert any(problem in text for text in problems), problems


def test_a_checkpoint_waits_for_entries_that_have_numbers_already(
    url: str, session: Session
) -> None:
    with closing(connect(url)) as other:
        node = register(other)
        (key,) = session.execute("SELECT id FROM keys").fetchone() or ("",)
        item = make_item(1, key, NOW_MS, settlement(5))
        other.run("BEGIN")
        run_round(other, node, asked=[item])
        run_round(other, node, ended=[item])
        session.run("SET lock_timeout = 50")
        with pytest.raises(errors.LockNotAvailable):
            run_audit(session, full=True, now_ms=9)
        other.run("ROLLBACK")
    session.run("ROLLBACK")
    assert run_audit(session, full=True, now_ms=9).ok
