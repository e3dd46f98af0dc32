"""Write sums beside the books, in a transaction of their own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.ledger.postgres.session import Session, commit_at_end
from gateway.ledger.serving.sums import Observations
from gateway.ledger.sql.connection import Connection
from gateway.ledger.sql.observations import Insert, Row, write_observations

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
