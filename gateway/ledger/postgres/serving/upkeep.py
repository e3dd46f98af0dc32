"""The upkeep by each node, now and then: dead nodes taken over, months made and dropped, changes deleted."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

import psycopg

from gateway.ledger.postgres.nodes import Node, look_around
from gateway.ledger.postgres.session import Session, commit_at_end, describe

log = logging.getLogger("gateway.ledger")

LOOK_SECONDS: Final = 0.5
"""How often a node says that it lives, and looks for dead ones."""
HOUR_SECONDS: Final = 3600.0
"""How often months are made and old rows forgotten."""
MONTHS_AHEAD: Final = 2
"""Months that have their partitions before they begin: an upkeep that fails has time."""
WAIT_MS: Final = 300
"""How long months wait for a lock: less than the second after which a server looks for deadlocks."""

_FORGET: Final = (
    "DELETE FROM changes WHERE made_at < clock_timestamp() - INTERVAL '30 days'",
    "DELETE FROM nodes WHERE ended_at < clock_timestamp() - INTERVAL '30 days'",
)
"""A node that was cut off, and that nobody took over, reads what was changed meanwhile."""


class Upkeep:
    """Only the store touches it, on its thread.

    A failure to take over raises psycopg.Error. A failure of the hourly work is logged, unless the
    connection broke, and tried again an hour later.
    """

    def __init__(
        self,
        node: Node,
        retention_months: int,
        *,
        silence_seconds: float,
        test_clock: Callable[[], int | None],
    ) -> None:
        self._node = node
        self._silence_seconds = silence_seconds
        self._test_clock = test_clock
        self._retention_months = retention_months
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
        for dead in look_around(session, self._node, self._silence_seconds, self._test_clock()):
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
