"""A stand-in for an extra's databases, for tests of what is around them: a file of SQLite."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from gateway import extension
from gateway.base.progress import Progress
from gateway.extension import Extra, find_extras
from gateway.ledger.records import DatabaseUrl
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.schema import check_file

PASSWORD: Final = "pw-canary-0123456789"
URL: Final = f"postgresql://keeper:{PASSWORD}@db.example.com:5433/books?sslmode=require"
SHOWN: Final = "postgresql://keeper@db.example.com:5433/books"


@dataclass(slots=True)
class StandIn:
    """Keeps what belongs into any database in one file."""

    file: Path
    pid: int | None
    """The process that seems to serve from it."""
    opened: list[object] = field(default_factory=list)
    """The addresses that were opened."""

    def read_url(self, text: str) -> DatabaseUrl:
        return DatabaseUrl(text, re.sub(r":[^:@/]*@|\?.*", lambda one: "@"[: "@" in one[0]], text))

    def make_opener(self, url: DatabaseUrl) -> Opening:
        return Opening(self, url.value)


@dataclass(slots=True)
class Opening:
    place: StandIn
    url: str
    schema: int = 0

    def open_ledger(self, **named: Any) -> Any:
        return self.url, named

    def check_ledger(self) -> bool:
        self.place.opened.append(self.url)
        return check_file(self.place.file) or self.place.pid is not None

    def open_books(
        self, *, create: bool, clock: Callable[[], int], progress: Progress
    ) -> SqliteBooks:
        self.place.opened.append(self.url)
        return SqliteBooks(self.place.file, create=create, clock=clock, progress=progress)

    def find_server(self) -> int | None:
        return self.place.pid


def stand_in(patch: pytest.MonkeyPatch, file: Path, *, pid: int | None = None) -> list[object]:
    """Let a file be the database of all addresses; return those that were opened."""
    one = StandIn(file, pid)
    others = {name: extra for name, extra in find_extras().items() if extra.databases is None}
    found = others | {"databases": Extra(databases=lambda: one)}
    patch.setattr(extension, "find_extras", lambda: found)
    return one.opened
