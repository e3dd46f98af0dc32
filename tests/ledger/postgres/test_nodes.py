"""Nodes come, say that they live, are taken for dead, and leave."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import psycopg
import pytest

from gateway.ledger.postgres.nodes import (
    TAKEN_OVER,
    DeadNode,
    Node,
    find_server,
    leave,
    register,
    renew,
    take_over,
)
from gateway.ledger.postgres.session import Session, connect, transaction
from tests.ledger.databases import ask, wait_for_lock
from tests.ledger.postgres.test_months import ROW

AGO = "UPDATE nodes SET {0} = clock_timestamp() - INTERVAL '{1} s' WHERE id = ?"
ENTER = "SELECT enter_as(?, ?)"


@pytest.fixture
def session(ledger_url: str) -> Iterator[Session]:
    with closing(connect(ledger_url)) as session:
        yield session


def let(session: Session, node: Node, column: str, seconds: float) -> None:
    session.execute(AGO.format(column, seconds), (node.id,))


def look(session: Session, node: Node) -> list[DeadNode]:
    return list(take_over(session, node, 5, 9))


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
    let(session, other, "seen_at", 4.5)
    assert look(session, mine) == []
    let(session, other, "seen_at", 5.5)
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


def test_who_was_only_slow_is_not_taken_over(session: Session, ledger_url: str) -> None:
    """Its round was under way when it seemed dead."""
    mine, slow = register(session), register(session)
    let(session, mine, "steady_at", 60)
    let(session, slow, "seen_at", 9)
    with closing(connect(ledger_url)) as round_, ThreadPoolExecutor(1) as thread:
        round_.run("BEGIN")
        round_.execute(ENTER, (slow.id, slow.epoch))
        looked = thread.submit(look, session, mine)
        wait_for_lock(round_, looked)
        round_.run("COMMIT")
        assert looked.result(10) == []


def test_an_epoch_that_comes_late_changes_nothing(session: Session) -> None:
    node = register(session)
    renew(session, node)
    with pytest.raises(psycopg.Error, match="was taken over"):
        renew(session, Node(node.id, node.epoch - 1))
    session.execute(ENTER, (node.id, node.epoch))


def test_a_node_says_that_it_lives_by_what_it_does(session: Session) -> None:
    """Twice a second is enough."""
    node = register(session)
    seen = "SELECT seen_at FROM nodes"
    first = ask(session, seen)
    session.execute(ENTER, (node.id, node.epoch))
    assert ask(session, seen) == first
    let(session, node, "seen_at", 1)
    session.execute(ENTER, (node.id, node.epoch))
    assert str(ask(session, seen)) >= str(first)


def test_one_node_at_a_time_looks_for_the_dead(session: Session, ledger_url: str) -> None:
    mine, other = register(session), register(session)
    let(session, mine, "steady_at", 60)
    let(session, other, "seen_at", 9)
    with closing(connect(ledger_url)) as third:
        third.run("BEGIN; SELECT pg_advisory_xact_lock(4745, 0)")
        assert look(session, mine) == []
        third.run("COMMIT")
    assert len(look(session, mine)) == 1


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
