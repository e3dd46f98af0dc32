"""Nodes: seen, suspected, taken over, each once; and the sums that they write beside the books."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress

import psycopg
import pytest

from gateway.ledger.postgres import nodes
from gateway.ledger.postgres.nodes import (
    TAKEN_OVER,
    DeadNode,
    Node,
    find_server,
    leave,
    look_around,
    register,
    renew,
    write_aside,
)
from gateway.ledger.postgres.session import Session, connect, transaction
from gateway.ledger.serving.queue import CallSum, Observations, RefusalSum
from tests.ledger.contract.kit import NOW_MS
from tests.ledger.contract.test_costs import make_failure
from tests.ledger.databases import ask
from tests.ledger.postgres.test_months import ROW

AGO = "UPDATE nodes SET {0} = clock_timestamp() - INTERVAL '{1} s' WHERE id = ?"
ENTER = "SELECT enter_as(?, ?)"
SLEEPS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'"


@pytest.fixture
def session(ledger_url: str) -> Iterator[Session]:
    with closing(connect(ledger_url)) as session:
        yield session


def let(session: Session, node: Node, column: str, seconds: float) -> None:
    session.execute(AGO.format(column, seconds), (node.id,))


def look(session: Session, node: Node) -> list[DeadNode]:
    """Look at nodes whose silence is 5 s; those that were suspected, were so long ago."""
    session.run(
        "UPDATE nodes SET suspected_at = suspected_at - INTERVAL '3 s'"
        " WHERE suspected_at IS NOT NULL"
    )
    return list(look_around(session, node, 5))


def add_pending(session: Session, node: Node | None) -> None:
    session.execute(ROW, ("req_1", 1))
    session.execute("UPDATE requests SET node_id = ?", (None if node is None else node.id,))


def read_outcome(session: Session) -> object:
    return ask(session, "SELECT outcome FROM requests")


def test_the_server_of_this_host_is_found_while_it_lives(session: Session, ledger_url: str) -> None:
    assert find_server(ledger_url) is None
    node = register(session)
    assert find_server(ledger_url) == os.getpid()
    let(session, node, "seen_at", 6)
    assert find_server(ledger_url) is None
    let(session, node, "seen_at", 0)
    leave(session, node)
    assert find_server(ledger_url) is None


def test_who_was_silent_is_taken_over_once(session: Session) -> None:
    mine, other = register(session), register(session)
    add_pending(session, other)
    let(session, mine, "steady_at", 60)
    assert look(session, mine) == []
    for seconds in (2, 9):
        let(session, other, "seen_at", seconds)
        assert look(session, mine) == [], "it is suspected first"
    (dead,) = look(session, mine)
    assert (dead.id, dead.pid, dead.interrupted) == (other.id, os.getpid(), 1)
    assert read_outcome(session) == "interrupted"
    assert look(session, mine) == []
    with pytest.raises(psycopg.Error, match="was taken over") as found:
        session.execute(ENTER, (other.id, other.epoch))
    assert found.value.sqlstate == TAKEN_OVER


def test_who_was_cut_off_itself_buries_nobody(session: Session) -> None:
    """After an outage of the server all nodes are old; who comes back first is not the only one."""
    mine, other = register(session), register(session)
    for node in (mine, other):
        let(session, node, "steady_at", 60)
        let(session, node, "seen_at", 10)
    assert look(session, mine) == []
    assert ask(session, "SELECT count(*) FROM nodes WHERE ended_at IS NULL") == 2


def make_silent(session: Session, mine: Node, silent: Node, seconds: float = 9) -> None:
    """Let a node be silent for so long, and suspected, with one that may take it over."""
    let(session, mine, "steady_at", 60)
    let(session, silent, "seen_at", seconds)
    assert look(session, mine) == []


def test_nobody_waits_for_a_round_of_a_silent_node(session: Session, ledger_url: str) -> None:
    """Its round is under way, or is stuck; what was read before a wait would not be true any more."""
    mine, slow = register(session), register(session)
    make_silent(session, mine, slow)
    with closing(connect(ledger_url)) as round_:
        round_.run("BEGIN")
        round_.execute(ENTER, (slow.id, slow.epoch))
        session.run("SET statement_timeout = '5s'")
        assert look(session, mine) == []
        round_.run("COMMIT")
        round_.execute("SELECT beat(?)", (slow.id,))
    assert look(session, mine) == []


def test_a_node_whose_row_is_locked_serves_on_and_has_time_to_be_seen(
    session: Session, ledger_url: str
) -> None:
    mine, other = register(session), register(session)
    with closing(connect(ledger_url)) as stranger:
        let(session, mine, "steady_at", 60)
        let(session, other, "seen_at", 9)
        stranger.run(f"BEGIN; UPDATE nodes SET host = host WHERE id = {other.id}")
        session.execute(ENTER, (other.id, other.epoch))
        assert ask(session, "SELECT beat(?)", (other.id,)) is False
        for _ in range(2):
            assert look(session, mine) == [], "nobody could suspect it"
        stranger.run("ROLLBACK")
    assert look(session, mine) == [], "it is suspected now"
    assert ask(session, "SELECT beat(?)", (other.id,)) is True
    let(session, other, "seen_at", 0)
    assert look(session, mine) == []


def test_only_the_requests_of_a_locked_account_stay_pending(
    session: Session, ledger_url: str
) -> None:
    mine, dead = register(session), register(session)
    session.run(
        "INSERT INTO accounts (name, created_ms, held_nano, in_flight)"
        " VALUES ('a', 1, 10, 1), ('b', 1, 10, 1)"
    )
    for account_id in (1, 2):
        session.execute(ROW, (f"req_{account_id}", account_id))
    session.execute(
        "UPDATE requests SET account_id = started_ms, node_id = ?, hold_nano = 10", (dead.id,)
    )
    make_silent(session, mine, dead)
    with closing(connect(ledger_url)) as stranger:
        stranger.run("BEGIN; UPDATE accounts SET name = name WHERE id = 1")
        assert [(one.id, one.interrupted) for one in look(session, mine)] == [(dead.id, 1)]
        pending = "SELECT account_id FROM requests WHERE state = 'pending'"
        assert session.execute(pending).fetchall() == [(1,)]
        with pytest.raises(psycopg.Error, match="was taken over"):
            session.execute(ENTER, (dead.id, dead.epoch))
        assert [one.interrupted for one in look(session, mine)] == [0]
        stranger.run("ROLLBACK")
    assert [one.interrupted for one in look(session, mine)] == [1]
    assert look(session, mine) == []
    held = session.execute("SELECT held_nano, in_flight FROM accounts").fetchall()
    assert held == [(0, 0), (0, 0)]


def test_a_stuck_round_is_cancelled_before_the_next_epoch(
    session: Session, ledger_url: str
) -> None:
    node = register(session)
    with closing(connect(ledger_url)) as stuck, ThreadPoolExecutor(1) as thread:
        stuck.run("BEGIN")
        stuck.execute(ENTER, (node.id, node.epoch))
        hung = thread.submit(stuck.run, "SELECT pg_sleep(60)")
        while not ask(session, SLEEPS):
            assert not hung.done()
        renew(session, node)
        with pytest.raises(psycopg.errors.QueryCanceled):
            hung.result(10)


def test_an_epoch_that_comes_late_changes_nothing(session: Session) -> None:
    node = register(session)
    renew(session, node)
    with pytest.raises(psycopg.Error, match="was taken over"):
        renew(session, Node(node.id, node.epoch - 1))
    session.execute(ENTER, (node.id, node.epoch))


def test_a_node_says_that_it_lives_when_it_looks(session: Session) -> None:
    """And when it connects again, however long it waits for its next epoch."""
    node = register(session)
    for say in (look, renew):
        let(session, node, "seen_at", 9)
        say(session, node)
        assert ask(session, "SELECT seen_at > clock_timestamp() - INTERVAL '5 s' FROM nodes")


def test_who_leaves_ends_what_it_had(session: Session) -> None:
    node, other = register(session), register(session)
    add_pending(session, node)
    leave(session, other)
    assert read_outcome(session) == "pending"
    leave(session, node)
    assert read_outcome(session) == "interrupted"
    with pytest.raises(psycopg.Error, match="was taken over"):
        leave(session, node)


def test_what_was_imported_as_pending_is_interrupted_beside_no_change(
    session: Session, ledger_url: str
) -> None:
    """A change of the books takes rows in any order."""
    session.run("SET lock_timeout = 1")
    with closing(connect(ledger_url)) as other:
        with transaction(other), pytest.raises(psycopg.errors.LockNotAvailable):
            session.run("SELECT interrupt_requests(NULL, 9)")
        session.run("SELECT interrupt_requests(NULL, 9)")


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
        write_aside(session, observe(["x"]), NOW_MS)
    assert not session.in_transaction
    assert session.execute("SELECT count(*) FROM refusals").fetchall() == [(0,)]


def test_others_wait_for_a_process_that_is_stopped_for_seconds_alone(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its transaction has rows that they write, before their own next rounds."""
    timeouts: list[object] = []

    def look(connection: Session, *_: object) -> None:
        timeouts.append(connection.execute("SHOW idle_in_transaction_session_timeout").fetchone())

    monkeypatch.setattr(nodes, "write_observations", look)
    write_aside(session, observe(["x"]), NOW_MS)
    assert timeouts == [("2s",)]


def test_nodes_that_write_the_same_sums_wait_for_nobody_in_a_circle(ledger_url: str) -> None:
    """Each counted them in another order."""

    def write(codes: list[str]) -> None:
        with closing(connect(ledger_url)) as session:
            for _ in range(20):
                while True:  # as the observer does
                    with suppress(psycopg.errors.LockNotAvailable):
                        write_aside(session, observe(codes), NOW_MS)
                        break

    with ThreadPoolExecutor(2) as threads:
        for done in [threads.submit(write, codes) for codes in (CODES, CODES[::-1])]:
            done.result(60)
    with closing(connect(ledger_url)) as session:
        rows = session.execute("SELECT DISTINCT refused FROM refusals").fetchall()
    assert rows == [(2 * 20 * 2,)]
