"""Nodes: each process that serves has a row, whose epoch it names in every transaction.

What a node counts beside the books is written in a transaction of its own.
Between its rounds a node takes over dead nodes, makes and drops months, and deletes old rows.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Final

import psycopg
from psycopg import errors

from gateway.base.process import find_version
from gateway.extras.postgres.feed import WAIT_MS
from gateway.extras.postgres.schema import SILENCE_SECONDS, open_session
from gateway.extras.postgres.session import (
    QUEUE_MS,
    Session,
    commit_at_end,
    describe,
    explain,
    transaction,
)
from gateway.ledger.base import Aside
from gateway.ledger.records import LedgerError, NodeView
from gateway.ledger.sql.database import Connection, Row

TAKEN_OVER: Final = "GW001"
BOOKS_KEPT: Final = "GW003"
"""SQLSTATEs of `enter_as`."""

_REGISTER: Final = (
    "INSERT INTO nodes (host, pid, version, steady_at) SELECT ?, ?, ?, coalesce(min(steady_at),"
    " clock_timestamp()) FROM nodes"
    " WHERE ended_at IS NULL AND seen_at > clock_timestamp() - INTERVAL '2 s' RETURNING id, epoch"
)
"""A node that joins others learns from them since when the database has been reachable."""
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
    """Note that this node lives, and interrupt the requests of dead nodes.

    A node judges others only if it was itself seen throughout `silence_seconds`. Rows that another program
    has locked are left for the next time.
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
    """Return the nodes that have neither left nor been taken for dead."""
    return [NodeView(*row) for row in session.execute(_LIST)]


def find_server(url: str) -> int | None:
    """Return the id of a process of this host that serves; None if there is none. Raises LedgerError."""
    with closing(open_session(url)) as session:
        try:
            row = session.execute(_FIND, (socket.gethostname(), SILENCE_SECONDS)).fetchone()
        except psycopg.Error as error:
            raise explain(url, error) from error
    return None if row is None else int(row[0])


ASIDE_WAIT_MS: Final = 50
"""Longer than other nodes take to write the same sums."""


def write_aside(session: Session, write: Aside) -> None:
    """Write rows that are no part of the books; a crash of the server may lose the latest of them.

    Rounds wait for this, so it waits for nobody.
    """
    settings = f"SET LOCAL synchronous_commit = off; SET LOCAL lock_timeout = {ASIDE_WAIT_MS}"
    with commit_at_end(session, settings):
        write(session, _insert_rows)


def _insert_rows(connection: Connection, sql: str, rows: Sequence[Row]) -> None:
    if rows:  # in one order, so that nodes which write the same sums do not wait for each other
        marks = "(" + ", ".join("?" * len(rows[0])) + ")"
        connection.executemany(sql.replace("VALUES", f"VALUES {marks}"), sorted(rows, key=repr))


log = logging.getLogger("gateway.ledger")

LOOK_SECONDS: Final = 0.5
"""Seconds between two reports of a node that it lives, and looks for dead ones: a tenth of `SILENCE_SECONDS`,
so that one that is late does not make a node dead."""
HOUR_SECONDS: Final = 3600.0
"""Seconds between two upkeeps, which make months and forget old rows: months are made long before they
begin."""
MONTHS_AHEAD: Final = 2
"""Months that have their partitions before they begin: an upkeep that fails has time."""
_FORGET: Final = (
    "DELETE FROM changes WHERE made_at < clock_timestamp() - INTERVAL '30 days'",
    "DELETE FROM nodes WHERE ended_at < clock_timestamp() - INTERVAL '30 days'",
)
"""Old rows stay for 30 days: a node that was cut off, and not taken over, still reads the changes since."""
_IS_SET_BACK: Final = (
    "SELECT EXISTS (SELECT 1 FROM nodes WHERE ended_at IS NULL"
    " AND greatest(seen_at, steady_at, suspected_at) > clock_timestamp() + INTERVAL '1 s')"
    " OR (? = 1 AND EXISTS ("
    "SELECT 1 FROM rates WHERE requests_full_us > (SELECT now_ms()) * 1000 + 60000000))"
)
"""Whether the database's clock was set back. The rates, which are many, are read only by the first look on a
connection: the node has said before that it lives, so its row may show nothing."""
_SET_NODES_RIGHT: Final = (
    "UPDATE nodes SET seen_at = least(seen_at, clock_timestamp()),"
    " steady_at = least(steady_at, clock_timestamp()), suspected_at = NULL"
    " WHERE ended_at IS NULL AND greatest(seen_at, steady_at, suspected_at) > clock_timestamp()"
)
_SET_RATES_RIGHT: Final = (  # a bucket of requests is full within a minute
    "UPDATE rates SET requests_full_us = 0, tokens_full_us = 0"
    " WHERE requests_full_us > now_ms() * 1000 + 60000000"
)
"""Both bring times that lie ahead to the present: else a dead node would keep its holds, and keys would be over
their rates, until the clock has come there again."""


class Upkeep:
    """The upkeep by each node: dead nodes taken over, months made and dropped, changes deleted.

    Only the store touches it, on its thread.

    A failure to take over raises psycopg.Error. A failure of the hourly work is logged, unless the
    connection broke, and tried again an hour later.
    """

    def __init__(self, node: Node, retention_months: int, *, silence_seconds: float) -> None:
        self._node = node
        self._silence_seconds = silence_seconds
        self._retention_months = retention_months
        self._checked_on: Session | None = None
        """The connection on which the last look learned whether the clock was set back. None if it could not."""
        self._look_due: float = 0
        self._hourly_due: float = 0

    def run(self, session: Session) -> None:
        now = time.monotonic()
        if now >= self._look_due:
            self._look_due = now + LOOK_SECONDS
            self._look_around(session)
        if now >= self._hourly_due:
            self._hourly_due = now + HOUR_SECONDS
            try:
                self._forget(session)
                self._keep_months(session)
            except psycopg.Error as error:
                if session.is_broken:
                    raise
                log.warning(
                    "months could not be made or dropped, or old rows deleted: %s", describe(error)
                )

    def _look_around(self, session: Session) -> None:
        is_first, self._checked_on = session is not self._checked_on, None
        with suppress(errors.LockNotAvailable):  # the next look tries it again
            if session.execute(_IS_SET_BACK, (int(is_first),)).fetchone() == (True,):
                with transaction(session, QUEUE_MS):
                    session.execute(_SET_NODES_RIGHT)
                    session.execute(_SET_RATES_RIGHT)
                log.warning("the database's clock was set back")
            self._checked_on = session
        for dead in look_around(session, self._node, self._silence_seconds):
            log.warning(
                "node %d (process %d on %s) is gone: %d requests in flight are interrupted and"
                " charged 0; `audit` lists them",
                dead.id,
                dead.pid,
                dead.host,
                dead.interrupted,
            )

    def _keep_months(self, session: Session) -> None:
        self._change_months(session, "SELECT make_months(now(), ?)", MONTHS_AHEAD)
        if self._retention_months:
            sql = "SELECT drop_months(now(), ?)"
            if dropped := self._change_months(session, sql, self._retention_months):
                log.info(
                    "months whose requests were dropped, as retention_months says: %d", dropped
                )

    def _change_months(self, session: Session, sql: str, months: int) -> int:
        """Change the tables, unless somebody reads them for long: rounds would wait behind this."""
        with commit_at_end(session, f"SET LOCAL lock_timeout = {WAIT_MS}"):
            (changed,) = session.execute(sql, (months,)).fetchone() or (0,)
        return int(changed)

    def _forget(self, session: Session) -> None:
        for statement in _FORGET:
            with commit_at_end(session, f"SET LOCAL lock_timeout = {WAIT_MS}"):
                session.execute(statement)
