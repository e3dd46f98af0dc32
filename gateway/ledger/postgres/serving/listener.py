"""Listen for changes that others commit, on a connection of its own.

LISTEN needs a session that lasts, which PgBouncer does not give in transaction mode. Where nothing
is heard, the node's polls find the changes all the same.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Final

import psycopg

from gateway.ledger.postgres.session import Session, connect
from gateway.ledger.records import LedgerError

log = logging.getLogger("gateway.ledger")

LOOK_SECONDS: Final = 0.5
"""How often the thread looks whether it is over."""
RETRY_SECONDS: Final = 1.0
"""The pause before it connects again: polls find changes meanwhile."""


class Listener:
    """A thread that calls `tell` after changes; it connects again when its connection breaks."""

    def __init__(self, url: str, tell: Callable[[], None]) -> None:
        self._url = url
        self._tell = tell
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="ledger-listener", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; it takes up to `LOOK_SECONDS` to notice."""
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
            for _ in session.driver.notifies(timeout=LOOK_SECONDS, stop_after=1):
                self._tell()
