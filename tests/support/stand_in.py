"""A stand-in for the ledger in PostgreSQL, for tests of what is around it: a file of SQLite."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from types import ModuleType
from typing import Final

import pytest

from gateway.ledger.records import AuditReport, MoveRecord
from gateway.ledger.sqlite.books import SqliteBooks, make_ledger
from gateway.ledger.sqlite.schema import check_file

PACKAGE: Final = "gateway.ledger.postgres"
PASSWORD: Final = "pw-canary-0123456789"
URL: Final = f"postgresql://keeper:{PASSWORD}@db.example.com:5433/books?sslmode=require"
SHOWN: Final = "postgresql://keeper@db.example.com:5433/books"


def replace_modules(patch: pytest.MonkeyPatch, modules: dict[str, dict[str, object]]) -> None:
    """Let `gateway.ledger.postgres` be a package of these modules alone, with these names in them."""
    for name in [name for name in sys.modules if name.startswith(f"{PACKAGE}.")]:
        patch.delitem(sys.modules, name)
    package = ModuleType(PACKAGE)
    patch.setitem(sys.modules, PACKAGE, package)
    for name, names in modules.items():
        module = ModuleType(f"{PACKAGE}.{name}")
        vars(module).update(names)
        patch.setitem(sys.modules, module.__name__, module)
        if "." not in name:
            setattr(package, name, module)


def stand_in(patch: pytest.MonkeyPatch, file: Path, *, pid: int | None = None) -> list[object]:
    """Keep what belongs into any database in this file; return the addresses that were opened.

    `pid` is the process that seems to serve from it.
    """
    opened: list[object] = []

    def open_books(url: str, *, create: bool, clock: Callable[[], int]) -> SqliteBooks:
        opened.append(url)
        return SqliteBooks(file, create=create, clock=clock)

    def check(url: str) -> bool:
        opened.append(url)
        return check_file(file) or pid is not None

    def make(url: str, version: int, records: Iterable[MoveRecord], now_ms: int) -> AuditReport:
        opened.append(url)
        return make_ledger(file, version, records, now_ms)

    replace_modules(
        patch,
        {
            "books": {"PostgresBooks": open_books, "make_ledger": make},
            "schema": {"check_database": check},
            "nodes": {"find_server": lambda _: pid},
            "serving": {"open_postgres": lambda *a, **b: (a, b)},
        },
    )
    return opened
