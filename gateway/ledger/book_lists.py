"""Lists of an account that may be long: its entries and its calls, in pages, and how many there are."""

from __future__ import annotations

import sqlite3

from gateway.ledger import list_calls, list_entries
from gateway.ledger.batch import EntryKind
from gateway.ledger.book import Book
from gateway.ledger.records import CallFilter, CallView, EntryFilter, EntryRun, NotFound


class ListBook(Book):
    def entry_run(self, chosen: EntryFilter, below_id: int | None, limit: int) -> EntryRun:
        """The latest entries below an id. Without times that is a page of `limit` entries.

        Times are not indexed: `limit` entries are looked at, and those of the chosen times given.
        """
        with self.reading() as connection:
            name = _find_name(connection, chosen.account_id)
            return list_entries.read_run(connection, chosen, name, below_id, limit)

    def count_entries(self, account_id: int, kind: EntryKind | None = None) -> int:
        with self.reading() as connection:
            return list_entries.count(connection, account_id, kind)

    def calls(self, chosen: CallFilter, below_id: str | None, limit: int) -> list[CallView]:
        """The latest calls below an id, pending ones among them."""
        with self.reading() as connection:
            return list_calls.read_calls(connection, chosen, below_id, limit)

    def count_calls(self, chosen: CallFilter) -> int:
        with self.reading() as connection:
            return list_calls.count(connection, chosen)

    def latest_calls(self, account_id: int, limit: int) -> list[CallView]:
        return self.calls(CallFilter(account_id), None, limit)


def _find_name(connection: sqlite3.Connection, account_id: int) -> str:
    row = connection.execute("SELECT name FROM accounts WHERE id = ?", (account_id,)).fetchone()
    if row is None:
        raise NotFound("there is no such account")
    name: str = row[0]
    return name
