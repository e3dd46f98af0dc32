"""Nodes: each process that serves has a row, whose epoch it names in every transaction.

What a node counts beside the books is written in a transaction of its own.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import errors

from gateway.ledger.postgres.schema import SILENCE_SECONDS, open_session
from gateway.ledger.postgres.session import Session, commit_at_end, explain
from gateway.ledger.records import LedgerError, NodeView
from gateway.ledger.serving.store import Observations
from gateway.ledger.sql.books.observations import Insert, Row, write_observations
from gateway.ledger.sql.connection import Connection
from gateway.process import find_version

TAKEN_OVER: Final = "GW001"
BOOKS_KEPT: Final = "GW003"
"""SQLSTATEs of `enter_as`."""

_REGISTER: Final = (
    "INSERT INTO nodes (host, pid, version, steady_at) SELECT ?, ?, ?, coalesce(min(steady_at),"
    " clock_timestamp()) FROM nodes"
    " WHERE ended_at IS NULL AND seen_at > clock_timestamp() - INTERVAL '2 s' RETURNING id, epoch"
)
"""A node that joins others knows from them since when the database could be reached."""
_BEAT: Final = "SELECT beat(?)"
_RENEW: Final = "SELECT renew_epoch(?, ?)"
_LOOK_AROUND: Final = "SELECT * FROM look_around(?, ?, make_interval(secs => ?))"
_TAKE_OVER: Final = "SELECT * FROM take_over(?, ?, ?, make_interval(secs => ?))"
_LEAVE: Final = "SELECT leave(?, ?)"
_FIND: Final = (
    "SELECT pid FROM nodes WHERE host = ? AND ended_at IS NULL"
    " AND seen_at > clock_timestamp() - make_interval(secs => ?) ORDER BY id DESC LIMIT 1"
)

_LIST: Final = """
    SELECT host, pid, version, CAST(extract(epoch FROM started_at) * 1000 AS BIGINT),
        CAST(extract(epoch FROM seen_at) * 1000 AS BIGINT)
    FROM nodes WHERE ended_at IS NULL ORDER BY id
"""


class TakenOver(LedgerError):
    """Another node has taken this one for dead, and interrupted its requests."""


@dataclass(slots=True)
class Node:
    """A process among those that serve."""

    id: int
    epoch: int
    """Raised by `renew`, and by whoever takes it over."""


@dataclass(frozen=True, slots=True)
class DeadNode:
    """A node whose requests were interrupted."""

    id: int
    host: str
    pid: int
    interrupted: int


def register(session: Session) -> Node:
    row = session.execute(_REGISTER, (socket.gethostname(), os.getpid(), find_version())).fetchone()
    assert row is not None
    return Node(*row)


def renew(session: Session, node: Node) -> None:
    """Take the next epoch on a new connection, so that nothing sent on the last one is committed late.

    A round that is under way still is cancelled; if it does not end, this fails. Meanwhile others are
    told that the node lives. Raises psycopg.Error, of `TAKEN_OVER` too.
    """
    session.execute(_BEAT, (node.id,))
    node.epoch += 1  # if this has no answer, the next one raises it further
    session.execute(_RENEW, (node.id, node.epoch))


def look_around(session: Session, node: Node, silence_seconds: float) -> Iterator[DeadNode]:
    """Say that this node lives, and interrupt the requests of those that died.

    Nodes that died are found for as long as this one was seen without a break. What another program
    has locked is left to the next look.
    """
    values = (node.id, node.epoch, f"{silence_seconds:f}")
    for (silent_id,) in session.execute(_LOOK_AROUND, values):
        with suppress(errors.LockNotAvailable):
            taken = (node.id, node.epoch, silent_id, f"{silence_seconds:f}")
            for row in session.execute(_TAKE_OVER, taken):
                yield DeadNode(silent_id, *row)


def leave(session: Session, node: Node) -> None:
    """End this node; what it left pending is interrupted."""
    session.execute(_LEAVE, (node.id, node.epoch))


def list_nodes(session: Session) -> list[NodeView]:
    """Return the nodes that have not left, and that nobody has taken for dead yet."""
    return [NodeView(*row) for row in session.execute(_LIST)]


def find_server(url: str) -> int | None:
    """Return the process of a node of this host that serves. Raises LedgerError."""
    with closing(open_session(url)) as session:
        try:
            row = session.execute(_FIND, (socket.gethostname(), SILENCE_SECONDS)).fetchone()
        except psycopg.Error as error:
            raise explain(url, error) from error
    return None if row is None else int(row[0])


WAIT_MS: Final = 50
"""Longer than other nodes take to write the same sums."""


def write_aside(session: Session, observed: Observations, now_ms: int) -> None:
    """Add the sums to what is stored; a crash of the server may lose the last of them.

    Rounds wait for this, so it waits for nobody.
    """
    settings = f"SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = {WAIT_MS}"
    with commit_at_end(session, settings):
        write_observations(session, observed, now_ms, _insert_rows)


def _insert_rows(connection: Connection, insert: Insert, rows: Sequence[Row]) -> None:
    if rows:  # in one order, so that nodes which write the same sums do not wait for each other
        marks = "(" + ", ".join("?" * len(rows[0])) + ")"
        connection.executemany(
            f"{insert.into} VALUES {marks} {insert.then}", sorted(rows, key=repr)
        )
