"""A node hears of changes, does its upkeep now and then, and writes sums beside the books; `played/` has the rest."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import cast

import psycopg
import pytest

from gateway.base.process import find_version
from gateway.base.times import unix_ms
from gateway.extras.observations.observer import CallSum, Observations, RefusalSum
from gateway.extras.postgres import feed as feeds
from gateway.extras.postgres import nodes as module
from gateway.extras.postgres import session as sessions
from gateway.extras.postgres.books import PostgresBooks
from gateway.extras.postgres.feed import Listener
from gateway.extras.postgres.nodes import (
    Node,
    Upkeep,
    find_server,
    leave,
    register,
    renew,
    write_aside,
)
from gateway.extras.postgres.session import Cursor, Session, connect
from gateway.ledger.records import LedgerError
from gateway.ledger.sql.database import Values
from tests.extras.observations.kit import make_failure, writing
from tests.extras.postgres.databases import CUT_OFF, ask, stop_clock, wait_for_lock
from tests.extras.postgres.test_months import END, ROW
from tests.ledger.contract.kit import NOW_MS

AGO = "UPDATE nodes SET {0} = clock_timestamp() - INTERVAL '{1} s' WHERE id = ?"
SLEEPS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


@pytest.fixture
def session(ledger_url: str) -> Iterator[Session]:
    with closing(connect(ledger_url)) as session:
        yield session


TELL_ONE = "INSERT INTO changes (kind, id) VALUES ('account', '1')"
WAIT_SECONDS = 30.0


class Ear:
    """Counts what it is told."""

    def __init__(self) -> None:
        self.heard = threading.Semaphore(0)

    def wait(self) -> None:
        assert self.heard.acquire(timeout=WAIT_SECONDS)


@pytest.fixture
def ear(ledger_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ear]:
    monkeypatch.setattr(feeds, "RETRY_SECONDS", 0.01)
    ear = Ear()
    listener = Listener(ledger_url, ear.heard.release)
    ear.wait()  # it listens, and tells that there may be something
    yield ear
    listener.close()
    listener._thread.join(WAIT_SECONDS)
    assert not listener._thread.is_alive()


def test_it_tells_of_each_commit(ear: Ear, ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        session.run(f"BEGIN; {TELL_ONE}")
        assert not ear.heard.acquire(timeout=0.05)
        session.run("COMMIT")
        ear.wait()
        session.run(TELL_ONE)
        ear.wait()


def test_it_comes_back_and_tells_of_what_was_missed(ear: Ear, ledger_url: str) -> None:
    with closing(connect(ledger_url)) as session:
        session.run(CUT_OFF)
        ear.wait()
        session.run(TELL_ONE)
        ear.wait()


def test_a_server_that_is_not_there_is_tried_again_until_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tries = threading.Semaphore(0)

    def refuse(url: str) -> None:
        tries.release()
        raise LedgerError(url)

    monkeypatch.setattr(feeds, "connect", refuse)
    monkeypatch.setattr(feeds, "RETRY_SECONDS", 0.01)
    listener = Listener("postgresql://nowhere", lambda: None)
    for _ in range(3):
        assert tries.acquire(timeout=WAIT_SECONDS)
    listener.close()
    listener._thread.join(WAIT_SECONDS)
    assert not listener._thread.is_alive()


def make_upkeep(session: Session, months: int = 0) -> Upkeep:
    stop_clock(session, NOW_MS)
    return Upkeep(register(session), months, silence_seconds=3)


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
    assert row == [("interrupted", NOW_MS)]


@pytest.mark.parametrize("column", ["seen_at", "steady_at", "suspected_at"])
def test_times_that_lie_ahead_are_set_right(
    session: Session, ledger_url: str, monkeypatch: pytest.MonkeyPatch, column: str
) -> None:
    """The database's clock was set back: before the start, during a change of the books, during an outage."""
    seconds = 100.0
    monkeypatch.setattr(time, "monotonic", lambda: seconds)
    us = "now_ms() * 1000"
    rates = f"INSERT INTO rates VALUES (1, '', 9, {us} + 70000000, 9, 5), (2, '', 9, {us} + 50000000, 9, 7)"
    full = "SELECT requests_full_us > 0, tokens_full_us FROM rates ORDER BY account_id"
    ahead = "SELECT count(*) FROM nodes WHERE greatest(seen_at, steady_at, suspected_at) > clock_timestamp()"
    upkeep = make_upkeep(session)
    with closing(connect(ledger_url)) as other:
        for case, current in (("start", session), ("change", session), ("outage", other)):
            session.run(f"DELETE FROM rates; {rates}; UPDATE nodes SET {column} = now() + '1 h'")
            if case == "change":
                with sessions.transaction(other):
                    upkeep.run(session)
                seconds += module.LOOK_SECONDS
            if case == "outage":  # the node says that it lives before it looks
                renew(other, upkeep._node)
            upkeep.run(current)
            seconds += module.LOOK_SECONDS
            assert session.execute(full).fetchall() == [(False, 0), (True, 7)], case
            assert ask(session, ahead) == 0, case


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
    """`audit`, `export` and `pg_dump` read so. Rounds would wait for it, too."""
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


def let(session: Session, node: Node, column: str, seconds: float) -> None:
    session.execute(AGO.format(column, seconds), (node.id,))


def test_nodes_are_listed_until_they_leave(session: Session, ledger_url: str) -> None:
    with PostgresBooks(ledger_url) as books:
        assert books.list_nodes() == []
        node, other = register(session), register(session)
        assert len(books.list_nodes()) == 2
        leave(session, other)
        (found,) = books.list_nodes()
        assert (found.host, found.pid) == (socket.gethostname(), os.getpid())
        assert found.version == find_version()
        assert found.since_ms == pytest.approx(unix_ms(), abs=60_000)
        assert found.seen_ms == pytest.approx(found.since_ms, abs=1000)
        leave(session, node)
        assert books.list_nodes() == []


def test_the_server_of_this_host_is_found_while_it_lives(session: Session, ledger_url: str) -> None:
    assert find_server(ledger_url) is None
    node = register(session)
    assert find_server(ledger_url) == os.getpid()
    let(session, node, "seen_at", 6)
    assert find_server(ledger_url) is None
    let(session, node, "seen_at", 0)
    leave(session, node)
    assert find_server(ledger_url) is None


def test_a_stuck_round_is_cancelled_before_the_next_epoch(
    session: Session, ledger_url: str
) -> None:
    node = register(session)
    with closing(connect(ledger_url)) as stuck, ThreadPoolExecutor(1) as thread:
        stuck.run("BEGIN")
        stuck.execute("SELECT enter_as(?, ?)", (node.id, node.epoch))
        hung = thread.submit(stuck.run, "SELECT pg_sleep(60)")
        while not ask(session, SLEEPS):
            assert not hung.done()
        renew(session, node)
        with pytest.raises(psycopg.errors.QueryCanceled):
            hung.result(10)


HOUR = NOW_MS // 3_600_000
SLOT = NOW_MS // 60_000
CODES = [f"code_{number}" for number in range(50)]


def observe(codes: list[str]) -> Observations:
    return Observations(
        refusals={(HOUR, None, code, ""): RefusalSum(2, NOW_MS, "req_1") for code in codes},
        calls={(SLOT, code, "m"): CallSum(3, 1, make_failure()) for code in codes},
        failures=[make_failure()],
    )


def test_a_failure_undoes_all(session: Session) -> None:
    session.run("ALTER TABLE upstream_failures RENAME TO gone")
    with pytest.raises(psycopg.Error):
        write_aside(session, writing(observe(["x"]), NOW_MS))
    assert not session.in_transaction
    assert session.execute("SELECT count(*) FROM refusals").fetchall() == [(0,)]


def test_others_wait_for_a_process_that_is_stopped_for_seconds_alone(session: Session) -> None:
    """Its transaction has rows that they write, before their own next rounds."""
    timeouts: list[object] = []

    def look(connection: Session, *_: object) -> None:
        timeouts.append(connection.execute("SHOW idle_in_transaction_session_timeout").fetchone())

    write_aside(session, look)
    assert timeouts == [("2s",)]


def test_nodes_that_write_the_same_sums_wait_for_nobody_in_a_circle(ledger_url: str) -> None:
    """Each counted them in another order."""

    def write(codes: list[str]) -> None:
        with closing(connect(ledger_url)) as session:
            for _ in range(20):
                while True:  # as the observer does
                    with suppress(psycopg.errors.LockNotAvailable):
                        write_aside(session, writing(observe(codes), NOW_MS))
                        break

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write, codes) for codes in (CODES, CODES[::-1])]:
            done.result(60)
    with closing(connect(ledger_url)) as session:
        rows = session.execute("SELECT DISTINCT refused FROM refusals").fetchall()
    assert rows == [(2 * 20 * 2,)]
