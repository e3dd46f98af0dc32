"""One command as its verb sees it: the options, the configuration, and where the output goes."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gateway.admin import accounts
from gateway.cli.output import Json, Output
from gateway.cli.tables import Columns, render
from gateway.config import Config
from gateway.ledger import Books
from gateway.money import format_amount

Row = TypeVar("Row")


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is being run."""

    options: argparse.Namespace
    config: Config
    output: Output

    @property
    def currency(self) -> str:
        return self.config.billing.currency

    def open_books(self, *, create: bool = False) -> Books:
        return accounts.open_books(self.config.storage.path, create=create)

    def format_money(self, amount_nano: int) -> str:
        return f"{format_amount(amount_nano)} {self.currency}"

    def say(self, words: str) -> None:
        """Write a message for people to stderr."""
        self.output.say(words)

    def show(self, value: Json, text: str = "") -> None:
        """Write JSON to stdout if it was asked for, else the text if there is one."""
        if self.options.json:
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
