"""Books in PostgreSQL have one connection, which may break, and a server beside them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.postgres import books as module
from gateway.ledger.postgres.books import PostgresBooks
from gateway.ledger.postgres.nodes import leave, register
from gateway.ledger.postgres.session import connect, transaction
from gateway.ledger.records import LedgerError, Refused
from tests.ledger.databases import CUT_OFF, wait_for_lock
from tests.support.postgres import Cluster, name_of


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
    postgres.run_sql(f"ALTER DATABASE {name} SET default_transaction_isolation = 'serializable';")

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
