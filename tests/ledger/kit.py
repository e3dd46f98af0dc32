"""A database with an account and a key, for the ledger's tests."""

from __future__ import annotations

import functools
import re
import sqlite3
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gateway.admin import keys
from gateway.base import ids
from gateway.ledger.base import Key
from gateway.ledger.opening import open_books
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sql.books import Books
from gateway.ledger.sqlite.serving import open_sqlite
from tests import ROOT
from tests.support.extras import find_modules

SPOILED: Final = Path(__file__).with_name("spoiled.txt")


@dataclass(frozen=True)
class Place:
    """A database with the account `a` and one key of it."""

    path: Path
    key_id: str
    digest: bytes


def make_place(folder: Path, *, credit_nano: int = 10**12) -> Place:
    """Made once for each credit, then copied: a database costs a dozen fsyncs."""
    content, key_id, digest = _make_database(credit_nano)
    path = folder / "gateway.db"
    path.write_bytes(content)
    return Place(path, key_id, digest)


@functools.cache
def _make_database(credit_nano: int) -> tuple[bytes, str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "gateway.db"
        with open_books(path, create=True) as books:
            books.accounts.create("a", credit_nano=credit_nano)
            new = keys.add_key(books, "a")
        return path.read_bytes(), new.key.id, ids.digest(new.secret)


def find_key(ledger: ServingLedger, place: Place) -> Key:
    key = ledger.find_key(place.digest)
    assert key is not None
    return key


@asynccontextmanager
async def serving(place: Place, **options: Any) -> AsyncIterator[tuple[ServingLedger, Key]]:
    """Open the ledger of a place; give it and the key."""
    async with open_sqlite(place.path, **options) as ledger:
        yield ledger, find_key(ledger, place)


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(sql).fetchall()
    finally:
        connection.close()


def explain(path: Path, sql: str) -> list[str]:
    """Return the query plan of a statement; all its parameters are unbound."""
    values = dict.fromkeys(re.findall(r":(\w+)", sql))
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    return [row[3] for row in rows]


def check_plan(path: Path, sql: str, *, sorts: bool = False, scans: tuple[str, ...] = ()) -> None:
    """Check that a statement scans no table but those named, and sorts only if it may."""
    plan = explain(path, sql)
    for table in {"requests", "entries", "daily", "hourly", "keys", "accounts"}.difference(scans):
        assert not any(step.startswith(f"SCAN {table}") for step in plan), plan
    assert sorts or not any("TEMP B-TREE" in step for step in plan), plan


def assert_sound(path: Path) -> None:
    with open_books(path) as books:
        assert books.audit().problems == ()


def add_rows(books: Books) -> None:
    """Add rows to all tables that calls, keys and budgets leave empty."""
    books.change("INSERT INTO model_prices VALUES ('x/y', '[]')", ())
    for module in find_modules("rows").values():
        module.add_rows(books)


def read_spoiled(section: str, **words: object) -> list[tuple[str, str]]:
    """Return what is spoiled, by SQL or an edit, and what is said of it; `words` are replaced in it."""
    files = (SPOILED, *sorted(ROOT.glob("tests/extras/*/spoiled.txt")))
    sections = [part for one in files for part in one.read_text(encoding="utf-8").split("== ")]
    rows = "\n".join(one for one in sections if one.startswith(f"{section}\n"))
    for word, value in words.items():
        rows = rows.replace(word, str(value))
    return re.findall(r"^(\S.*)\n {4}(.*)$", rows, re.MULTILINE)
