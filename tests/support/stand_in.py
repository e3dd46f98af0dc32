"""A stand-in for an extra's databases, for tests of what is around them: a file of SQLite."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import pytest

from gateway import extension
from gateway.extension import Extra, find_extras
from gateway.ledger.opening import Databases
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

    def check_ledger(self, url: DatabaseUrl) -> bool:
        self.opened.append(url.value)
        return check_file(self.file) or self.pid is not None

    def open_books(self, url: DatabaseUrl, **options: Any) -> SqliteBooks:
        self.opened.append(url.value)
        return SqliteBooks(self.file, **options)

    def list(self) -> Databases:
        return Databases(
            schema=0,
            read_url=self.read_url,
            open_ledger=lambda url, **named: cast("Any", (url.value, named)),
            check_ledger=self.check_ledger,
            open_books=self.open_books,
            find_server=lambda _: self.pid,
        )


def stand_in(patch: pytest.MonkeyPatch, file: Path, *, pid: int | None = None) -> list[object]:
    """Let a file be the database of all addresses; return those that were opened."""
    one = StandIn(file, pid)
    others = {name: extra for name, extra in find_extras().items() if extra.databases is None}
    found = others | {"databases": Extra(databases=one.list)}
    patch.setattr(extension, "find_extras", lambda: found)
    return one.opened
