"""The command that a verb runs in: configuration, books, who asks, output."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TypeVar

from gateway.admin.fields import Fields
from gateway.cli.arguments import Json, Output, render
from gateway.config.records import Config
from gateway.ledger.opening import open_books
from gateway.ledger.records import Actor, DatabaseUrl, LedgerMissing, NotFound
from gateway.ledger.sql.books import Books
from gateway.money import format_amount
from gateway.times import unix_ms

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is being run."""

    config: Config
    output: Output
    actor: Actor
    """The one under whose name changes are kept as events."""
    as_json: bool
    """Data are written as JSON, not as text."""
    closing: ExitStack
    """Closes what the verb opens, when it has ended."""

    @property
    def currency(self) -> str:
        return self.config.billing.currency

    def open_books(self, *, create: bool = False) -> Books:
        """Open the operator's books until the command ends. Raises NotFound, LedgerError."""
        location = self.config.storage.location
        try:
            books = open_books(location, create=create)
        except LedgerMissing as error:
            what = "ledger in" if isinstance(location, DatabaseUrl) else "database at"
            raise NotFound(
                f"there is no {what} {location}; 'serve' or 'account add' makes one"
            ) from error
        books.actor = self.actor
        return self.closing.enter_context(books)

    def format_money(self, amount_nano: int) -> str:
        return f"{format_amount(amount_nano)} {self.currency}"

    def say(self, words: str) -> None:
        """Write a message for people to stderr."""
        self.output.say(words)

    def show(self, value: Json, text: str = "") -> None:
        """Write JSON to stdout if it was asked for, else the text if there is one."""
        if self.as_json:
            self.output.print_json(value)
        elif text:
            self.output.print(text)

    def show_list(self, rows: Sequence[Row], fields: Fields[Row]) -> None:
        """Write rows to stdout: as JSON if it was asked for, else as a table."""
        now_ms = unix_ms()
        table = render(fields.columns, rows, self.currency)
        self.show([fields.describe(row, now_ms) for row in rows], table)

    def show_latest(self, what: str, rows: Sequence[Row], fields: Fields[Row], limit: int) -> None:
        """Write as many rows as `--limit` allows, and say so if there are more."""
        shown = rows[:limit]
        self.show_list(shown, fields)
        if len(rows) > len(shown):
            these = (
                f"These are the latest {limit} {what}s"
                if limit > 1
                else f"This is the latest {what}"
            )
            self.say(f"{these}; --limit N shows more.")
