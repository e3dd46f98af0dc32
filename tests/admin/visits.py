"""A real database, with a clock that the test sets."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

NAME = "alice"
OPERATOR = "root"


@dataclass
class Clock:
    now_ms: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now_ms


def read(path: Path, query: str) -> list[tuple[object, ...]]:
    """Run a statement on the database itself."""
    with closing(sqlite3.connect(path)) as connection, connection:
        return connection.execute(query).fetchall()


def read_events(path: Path) -> list[tuple[object, ...]]:
    return read(path, "SELECT actor, action, account, detail FROM events")[2:]


def read_kept(path: Path) -> bytes:
    """Return all that the files of the ledger have."""
    return b"".join(one.read_bytes() for one in path.parent.iterdir())
