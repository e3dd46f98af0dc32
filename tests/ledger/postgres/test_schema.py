"""The schema: made once, checked each time, and never over another program's tables."""

from __future__ import annotations

import threading
from contextlib import closing
from pathlib import Path

import pytest

from gateway.ledger.postgres import schema
from gateway.ledger.postgres.schema import (
    FUNCTIONS,
    UPGRADES,
    VERSION,
    check_database,
    open_session,
)
from gateway.ledger.postgres.session import connect
from gateway.ledger.records import LedgerError, LedgerMissing
from tests.ledger.databases import ask
from tests.support.databases import need_server
from tests.support.postgres import name_of, run_cluster

COUNT_TABLES = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"


def test_it_is_made_when_told_and_then_found(postgres_url: str) -> None:
    with pytest.raises(LedgerMissing, match="it has no ledger yet"):
        open_session(postgres_url)
    with closing(connect(postgres_url)) as session:
        assert ask(session, COUNT_TABLES) == 0
    open_session(postgres_url, create=True).close()
    for create in (False, True):
        with closing(open_session(postgres_url, create=create)) as session:
            assert not session.in_transaction
            assert session.execute("SELECT version FROM schema_version").fetchall() == [(VERSION,)]


def test_every_script_is_run() -> None:
    folder = Path(schema.__file__).parent
    run = {*schema.TABLES, *UPGRADES.values(), *FUNCTIONS}
    assert run == {path.name for path in folder.glob("*.sql")}


def test_functions_can_be_made_anew(ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        for script in FUNCTIONS:
            session.run(schema._read_script(script))


def test_a_newer_schema_is_used_as_long_as_it_says_so(ledger_url: str) -> None:
    """Nodes are upgraded one by one."""
    with closing(connect(ledger_url)) as session:
        session.run("UPDATE schema_version SET version = 99")
        open_session(ledger_url).close()
        session.run("UPDATE schema_version SET works_since = 98")
    with pytest.raises(LedgerError, match="schema version 99 is newer than this gateway knows"):
        open_session(ledger_url, create=True)


def test_another_programs_database_is_left_alone(postgres_url: str) -> None:
    with closing(connect(postgres_url)) as session:
        session.run("CREATE TABLE accounts (id int)")
        with pytest.raises(LedgerError, match="another program's database"):
            open_session(postgres_url, create=True)
        assert ask(session, COUNT_TABLES) == 1


def test_two_that_come_at_once_make_one(postgres_url: str) -> None:
    start, failed = threading.Barrier(2), []

    def make() -> None:
        start.wait(10)
        try:
            open_session(postgres_url, create=True).close()
        except Exception as error:  # noqa: BLE001 - it is looked at
            failed.append(error)

    threads = [threading.Thread(target=make) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    with closing(open_session(postgres_url)) as session:
        assert ask(session, "SELECT count(*) FROM schema_version") == 1


def test_an_old_server_is_refused(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schema, "OLDEST_SERVER", 990_000)
    with pytest.raises(LedgerError, match="PostgreSQL 13 or newer is needed"):
        open_session(ledger_url)


def test_a_check_makes_nothing_and_knows_a_ledger() -> None:
    """It refuses settings that can lose what was committed."""
    with run_cluster(need_server()) as cluster:
        url = cluster.make_database()
        assert check_database(url) is False
        assert cluster.run_sql(f"{COUNT_TABLES};", name_of(url)).strip() == "0"
        open_session(url, create=True).close()
        assert check_database(url) is True
        name = name_of(url)
        cluster.run_sql(f"ALTER DATABASE {name} SET synchronous_commit = off;")
        with pytest.raises(LedgerError, match="synchronous_commit is off, so a crash loses"):
            check_database(url)


def test_a_server_that_forgets_is_refused(ledger_url: str) -> None:
    """As the tests' own does."""
    with pytest.raises(LedgerError, match="set fsync = on"):
        check_database(ledger_url)
