"""Databases with the ledger's tables: copies of one, because to make the tables takes longer."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from gateway.ledger.sql.database import Values
from tests.extras.postgres.cluster import ROLE, Cluster, name_of

if TYPE_CHECKING:  # psycopg is an extra
    from gateway.extras.postgres.session import Session

CUT_OFF: Final = (
    "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity"
    " WHERE datname = current_database() AND pid <> pg_backend_pid()"
)
"""Ends all other connections to a database, and waits for their ends."""

_WAITS: Final = "SELECT count(*) FROM pg_locks WHERE NOT granted AND locktype = ?"

_numbers: Final = count(1)


class Databases:
    """The databases of one test worker, created once."""

    def __init__(self, cluster: Cluster) -> None:
        from gateway.extras.postgres.schema import open_session

        self._cluster = cluster
        self._template = cluster.make_database()
        open_session(self._template, create=True).close()

    @contextmanager
    def lend(self) -> Iterator[str]:
        """Give the URL of a new ledger, which is dropped at the end."""
        name = f"ledger_{next(_numbers)}"
        template = name_of(self._template)
        self._cluster.run_sql(f"CREATE DATABASE {name} TEMPLATE {template} OWNER {ROLE}")
        url = self._template.removesuffix(template) + name
        try:
            yield url
        finally:
            self._cluster.drop_database(url)


def ask(session: Session, sql: str, values: Values = ()) -> object:
    """Return the first value that a statement gives."""
    row = session.execute(sql, values).fetchone()
    assert row is not None
    return row[0]


def stop_clock(session: Session, now_ms: int) -> None:
    """Let the database's time stand still: all of its functions read it from these two."""
    for name in ("now_ms", "sent_ms"):
        session.run(
            f"CREATE OR REPLACE FUNCTION {name}() RETURNS BIGINT LANGUAGE sql VOLATILE"
            f" AS 'SELECT {now_ms}::bigint'"
        )


def wait_for_lock(session: Session, work: Future[Any], kind: str = "advisory") -> None:
    """Wait until the work, in another thread, waits for a lock."""
    while not ask(session, _WAITS, (kind,)):
        assert not work.done(), work.result()
