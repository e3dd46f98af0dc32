"""A holder with a long history of entries and requests, and texts that might be formulas."""

from __future__ import annotations

import contextlib
import csv
import io
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from gateway.admin import keys
from gateway.base.times import HOUR_MS
from gateway.extras.console.lists import CHUNK_ROWS
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.sqlite.books import SqliteBooks
from tests.extras.console.calls import NOON_MS, Past, add_calls
from tests.extras.console.kit import Console, open_console
from tests.support.served import HOLDER, OTHER, Reply

NAMES: Final = (
    "=1+1",
    "+1",
    "-1+1",
    "-5",
    "@SUM(A1)",
    '=HYPERLINK("http://x","y")',
    "a,b",
    'say "hi"',
    "Größe 🎉 ٣",
    "'quoted'",
    "x" * 100,
    "",
)


def guard(name: str) -> str:
    """Repeat the rule: a text that might be a formula gets an apostrophe."""
    return f"'{name}" if name[:1] in {"=", "+", "-", "@"} else name


def read_csv(reply: Reply) -> list[dict[str, str]]:
    assert reply.status == 200
    text = reply.body.decode()
    return list(csv.DictReader(io.StringIO(text, newline=""), strict=True))


@contextlib.asynccontextmanager
async def open_history(tmp_path: Path) -> AsyncIterator[Console]:
    """Open a console whose holder has entries and requests of more than two chunks."""

    def seed(books: SqliteBooks) -> None:
        books.clock = iter(range(NOON_MS - 10**6, NOON_MS)).__next__
        with books.changing():  # one fsync for all
            made = [keys.add_key(books, HOLDER, KeyTerms(name=name)).key.id for name in NAMES]
            for number, name in enumerate(NAMES):
                books.entries.credit(HOLDER, 10**9 + number, note=name)
                if name:
                    books.entries.correct(HOLDER, -number or 1, note=name)
            books.entries.credit(OTHER, 5, note="not yours")
            other = keys.add_key(books, OTHER).key.id
        calls = [
            Past(made[n % len(made)], NOON_MS - n * HOUR_MS // 4, NOON_MS + 5, cost_nano=n)
            for n in range(2 * CHUNK_ROWS + 7)
        ]
        path = tmp_path / "gateway.db"
        add_calls(path, books.accounts.read(HOLDER).id, calls)
        add_calls(path, books.accounts.read(OTHER).id, [Past(other, NOON_MS, NOON_MS + 1)])

    async with open_console(tmp_path, seed=seed) as console:
        yield console
