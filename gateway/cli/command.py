"""One command as its verb sees it: the configuration, the books, and where the output goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeVar

from gateway.admin import accounts
from gateway.cli.output import Columns, Json, Output, render
from gateway.config import Config
from gateway.ledger import CLI, Actor, Books
from gateway.money import format_amount

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is being run."""

    config: Config
    output: Output
    actor: Actor = CLI
    """The one under whose name changes are kept as events."""
    as_json: bool = False
    """Data are written as JSON, not as text."""

    @property
    def currency(self) -> str:
        return self.config.billing.currency

    def open_books(self, *, create: bool = False) -> Books:
        books = accounts.open_books(self.config.storage.location, create=create)
        books.actor = self.actor
        return books

    @contextmanager
    def forbid(self) -> Iterator[Books]:
        """Open the books for a change that forbids something: it is in force when the command ends."""
        with self.open_books() as books:
            yield books
            books.wait_in_force()

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

    def show_list(
        self,
        rows: Sequence[Row],
        describe: Callable[[Row], dict[str, object]],
        columns: Columns[Row],
    ) -> None:
        """Write rows to stdout: as JSON if it was asked for, else as a table."""
        self.show([describe(row) for row in rows], render(columns, rows, self.currency))

    def show_latest(
        self,
        what: str,
        rows: Sequence[Row],
        describe: Callable[[Row], dict[str, object]],
        columns: Columns[Row],
        limit: int,
    ) -> None:
        """Write as many rows as `--limit` allows, and say so if there are more."""
        shown = rows[:limit]
        self.show_list(shown, describe, columns)
        if len(rows) > len(shown):
            self.say(f"These are the latest {len(shown)} {what}; --limit N shows more.")
