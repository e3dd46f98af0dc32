"""Changes that others commit: rows of `changes` that became visible since the last look.

Transactions become visible in another order than their rows were numbered in. So a look goes back to
the oldest transaction that was under way at the look before, and leaves out what it has seen.
"""

from __future__ import annotations

from typing import Final

import orjson

from gateway.ledger.postgres.session import NOW, Session, commit_at_end, snapshot
from gateway.ledger.serving.memory import Snapshot
from gateway.ledger.sql.lookups import read_all, read_changed

_OLDEST: Final = "SELECT pg_snapshot_xmin(pg_current_snapshot())::text"
_CHANGED: Final = f"""
    SELECT pg_snapshot_xmin(pg_current_snapshot())::text, {NOW}, (
        SELECT json_agg(json_build_array(seq, kind, id) ORDER BY seq)
        FROM changes WHERE xid >= CAST(? AS xid8)
    )
"""  # noqa: S608 - built from constants
WAIT_MS: Final = 300
"""How long a look waits for tables that somebody has locked: rounds wait for it."""


class ChangeFeed:
    """Reads `changes` on the thread of its connection."""

    def __init__(self) -> None:
        self._oldest = "0"
        """The oldest transaction that was under way at the last look."""
        self._seen: frozenset[int] = frozenset()

    def read_all(self, session: Session, now_ms: int) -> Snapshot:
        """Read all accounts and live keys."""
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
        self._oldest, self._seen = oldest, frozenset(seq for seq, _, _ in changed)
        return found
