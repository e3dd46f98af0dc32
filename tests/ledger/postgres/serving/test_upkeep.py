"""A node works for all now and then, and not more often."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import cast

import psycopg
import pytest

from gateway.ledger.postgres import session as sessions
from gateway.ledger.postgres.nodes import Node, register
from gateway.ledger.postgres.serving import feed as module
from gateway.ledger.postgres.serving.feed import Upkeep
from gateway.ledger.postgres.session import Cursor, Session, connect
from gateway.ledger.sql.connection import Values
from tests.ledger.databases import ask, wait_for_lock
from tests.ledger.postgres.test_months import END, ROW


@pytest.fixture
def session(ledger_url: str) -> Iterator[Session]:
    with closing(connect(ledger_url)) as session:
        yield session


def make_upkeep(session: Session, months: int = 0) -> Upkeep:
    return Upkeep(
        register(session), months, silence_seconds=3, test_clock=lambda: 1_700_000_000_000
    )


def make_dead(session: Session) -> Node:
    """Register a node that is silent, while the others are seen throughout."""
    node = register(session)
    session.run("UPDATE nodes SET steady_at = now() - INTERVAL '1 minute'")
    past = "now() - INTERVAL '9 s'"
    session.execute(
        f"UPDATE nodes SET seen_at = {past}, suspected_at = {past} WHERE id = ?", (node.id,)
    )
    return node


def test_a_dead_node_is_buried_and_named(
    session: Session, caplog: pytest.LogCaptureFixture
) -> None:
    upkeep, dead = make_upkeep(session), make_dead(session)
    session.execute(ROW, ("req_1", 1))
    session.execute("UPDATE requests SET node_id = ?", (dead.id,))
    upkeep.run(session)
    assert f"node {dead.id} (process " in caplog.text
    assert "1 requests in flight are interrupted and charged 0" in caplog.text
    row = session.execute("SELECT outcome, ended_ms FROM requests").fetchall()
    assert row == [("interrupted", 1_700_000_000_000)]


def test_it_looks_now_and_then(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    upkeep = make_upkeep(session)
    upkeep.run(session)
    dead = make_dead(session)
    upkeep.run(session)
    ended = "SELECT ended_at IS NOT NULL FROM nodes WHERE id = ?"
    assert ask(session, ended, (dead.id,)) is False
    seconds += module.LOOK_SECONDS
    upkeep.run(session)
    assert ask(session, ended, (dead.id,)) is True


def test_hourly_it_makes_months_and_forgets_what_is_old(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    upkeep = make_upkeep(session)
    last = ask(session, "SELECT max(relid::regclass::text) FROM pg_partition_tree('entries')"
               " WHERE relid::regclass::text <> 'entries_other'")  # fmt: skip
    upkeep.run(session)
    for table in (str(last), str(last).replace("entries", "requests")):
        session.run(f"DROP TABLE {table}")
    session.run(
        "INSERT INTO changes (kind, id, made_at)"
        " VALUES ('account', 'old', now() - INTERVAL '31 days'),"
        " ('account', 'new', now() - INTERVAL '2 days');"
        "INSERT INTO nodes (host, pid, version, ended_at) VALUES"
        " ('old', 1, '', now() - INTERVAL '31 days'), ('new', 1, '', now())"
    )
    upkeep.run(session)
    assert ask(session, "SELECT count(*) FROM changes") == 2
    seconds += module.HOUR_SECONDS
    upkeep.run(session)
    assert session.execute("SELECT id FROM changes").fetchall() == [("new",)]
    assert ask(session, "SELECT count(*) FROM nodes WHERE host = 'old'") == 0
    assert ask(session, "SELECT to_regclass(?) IS NOT NULL", (str(last),)) is True


@pytest.mark.parametrize(("months", "kept"), [(0, 2), (2, 1)])
def test_old_months_are_dropped_where_that_is_configured(
    session: Session, months: int, kept: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "gateway.ledger")
    session.run("SELECT make_months('2020-02-03', 0)")
    session.execute(ROW, ("req_1", 1))
    session.execute(ROW.replace("?,", "find_first_id('2020-02-03') || lpad('', 16, '0'),", 1), (1,))
    session.execute(END)
    make_upkeep(session, months).run(session)
    assert cast("int", ask(session, "SELECT count(*) FROM requests")) == kept
    assert ("were dropped, as retention_months says: 1" in caplog.text) is (months > 0)


LAST = (
    "SELECT max(relid::regclass::text) FROM pg_partition_tree('requests')"
    " WHERE isleaf AND relid::regclass::text <> 'requests_other'"
)
MADE = "SELECT to_regclass(?) IS NOT NULL"


def drop_last(session: Session) -> str:
    """Drop the last month, so that an upkeep has to make it again; return its name."""
    last = str(ask(session, LAST))
    session.run(f"DROP TABLE {last}, {last.replace('requests', 'entries')}")
    return last


def test_months_wait_an_hour_for_one_who_reads_for_long(
    session: Session,
    ledger_url: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As `audit`, `export` and `pg_dump` do. Rounds would wait for it, too."""
    seconds = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    upkeep, last = make_upkeep(session, months=1), drop_last(session)
    with closing(connect(ledger_url)) as reader:
        reader.run("BEGIN; SELECT count(*) FROM requests")
        upkeep.run(session)
        assert (
            "months could not be made or dropped, or old rows deleted: another program"
            in caplog.text
        )
        assert not session.in_transaction
        reader.run("ROLLBACK")
    seconds += module.HOUR_SECONDS
    upkeep.run(session)
    assert ask(session, MADE, (last,)) is True


def test_months_end_with_a_process_that_is_stopped(
    session: Session, ledger_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between its statements: nobody could use the tables until it goes on."""
    monkeypatch.setattr(sessions, "BEGIN", sessions.BEGIN.replace("2000", "50"))
    upkeep, last = make_upkeep(session), drop_last(session)
    execute = session.execute

    def stop(sql: str, values: Values = ()) -> Cursor:
        cursor = execute(sql, values)
        if "make_months" in sql:
            other.run("SELECT 1 FROM requests LIMIT 1")
        return cursor

    monkeypatch.setattr(session, "execute", stop)
    with closing(connect(ledger_url)) as other:
        other.run("SET lock_timeout = '10s'")
        with pytest.raises(psycopg.Error):
            upkeep.run(session)
        assert ask(other, MADE, (last,)) is False


def test_a_round_is_no_victim_of_months(session: Session, ledger_url: str) -> None:
    """It has entries when a month takes all requests and waits for entries: the month gives way."""
    upkeep, last = make_upkeep(session), drop_last(session)
    with closing(connect(ledger_url)) as round_, closing(connect(ledger_url)) as looker:
        round_.run("BEGIN")
        round_.execute(
            "INSERT INTO entries (account_id, kind, amount_nano, balance_after_nano, created_ms)"
            " VALUES (1, 'credit', 1, 1, 1)"
        )
        with ThreadPoolExecutor(1) as thread:
            kept = thread.submit(upkeep.run, session)
            wait_for_lock(looker, kept, "relation")
            round_.execute(ROW, ("req_1", 1))
            round_.run("COMMIT")
            kept.result(10)
    assert ask(session, "SELECT count(*) FROM requests") == 1
    assert ask(session, MADE, (last,)) is False, "it is made an hour later"
