"""Learn of other processes' changes: by notifications, and by polls between a node's rounds.

Transactions become visible in another order than their rows were numbered in. So a look for changes goes
back to the oldest transaction that was under way at the look before, and leaves out what it has seen.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

import orjson
import psycopg

from gateway.extras.postgres.session import NOW, Session, commit_at_end, connect, snapshot
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.sql.rows import read_all, read_changed

_OLDEST: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_CHANGED: Final = f"""
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text, {NOW}, (
        SELECT json_agg(json_build_array(seq, kind, id) ORDER BY seq)
        FROM changes WHERE xid >= CAST(? AS xid8)
    )
"""  # noqa: S608 - built from constants
WAIT_MS: Final = 300
"""How long a look, or a change of months, waits for tables that somebody has locked: rounds wait behind
it. It is less than the second after which a server looks for deadlocks."""
NOTIFY_SECONDS: Final = 0.5
"""Seconds between two looks of the listener's thread whether it was closed: it may outlive `close` by
this."""
RETRY_SECONDS: Final = 1.0
"""The pause before the listener connects again: polls find changes meanwhile."""


class ChangeFeed:
    """Reads `changes` on the thread of its connection."""

    def __init__(self) -> None:
        self._oldest = "0"
        """The oldest transaction that was under way at the last look."""
        self._seen: frozenset[int] = frozenset()

    def read_all(self, session: Session, now_ms: int) -> Snapshot:
        """Read all accounts and live keys."""
        # Before the snapshot: a change in between is read twice rather than missed.
        (oldest,) = session.execute(_OLDEST).fetchone() or ("0",)
        self._oldest, self._seen = oldest, frozenset()
        with snapshot(session):
            return read_all(session, now_ms)

    def poll(self, session: Session) -> Snapshot | None:
        """Return what was changed since the last look, if anything was; learn the time."""
        oldest, array = session.execute_timed(_CHANGED, (self._oldest,))
        changed = orjson.loads(array) if array else []
        fresh = [(kind, id_) for seq, kind, id_ in changed if seq not in self._seen]
        found = None
        if fresh:
            with commit_at_end(session, f"SET LOCAL lock_timeout = {WAIT_MS}"):
                found = read_changed(session, fresh)
        # Set only now, so that after a failure the next look begins at the same place.
        self._oldest, self._seen = oldest, frozenset(seq for seq, _, _ in changed)
        return found


class Listener:
    """A thread that calls `tell` after changes; it connects again when its connection breaks.

    LISTEN needs a session that lasts, which PgBouncer does not give in transaction mode. Without
    notifications, the node's polls find the changes.
    """

    def __init__(self, url: str, tell: Callable[[], None]) -> None:
        self._url = url
        self._tell = tell
        self._over = threading.Event()
        # A daemon, so that the end of the process does not wait for it to connect.
        self._thread = threading.Thread(target=self._run, name="ledger-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; it takes up to `NOTIFY_SECONDS` to notice."""
        self._over.set()

    def _run(self) -> None:
        while not self._over.is_set():
            try:
                session = connect(self._url)
                try:
                    self._listen(session)
                finally:
                    session.close()
            except (psycopg.Error, LedgerError):
                self._over.wait(RETRY_SECONDS)  # the writer's connection says what is wrong

    def _listen(self, session: Session) -> None:
        session.run("LISTEN gateway_changes")
        self._tell()  # of what was missed meanwhile
        while not self._over.is_set():
            for _ in session.driver.notifies(timeout=NOTIFY_SECONDS, stop_after=1):
                self._tell()
