"""One command as its verb sees it: the options, the configuration, and where the output goes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from gateway.admin import accounts
from gateway.cli.output import Json, Output
from gateway.cli.tables import Columns, render
from gateway.config import Config
from gateway.ledger import CLI, Actor, Allowance, Books, CodeStatus, OutcomeFilter, UsageGroup
from gateway.money import format_amount

Row = TypeVar("Row")


Role = Literal["holder", "operator"]


class Options:
    """The parsed arguments of all verbs. A verb reads only those that `grammar` gives it.

    argparse sets them as attributes, so there is none where `edit` leaves an argument out.
    """

    config: str | None
    json: bool
    live: bool
    # What the verb is applied to.
    account: str | None
    id: str
    name: str
    token: str
    file: Path
    allowance: Allowance | None
    budget: Allowance | str | None
    key: str
    key_id: str | None
    model: str | None
    provider: str | None
    # Amounts are nano-units, times are Unix milliseconds, and durations are seconds.
    amount: int
    cap: int | None
    credit: int
    expires: int | None
    grace: int
    since: int | None
    until: int | None
    # The rest, by name.
    batch: bool
    by: UsageGroup
    concurrency: int | None
    container: bool
    count: int
    csv: bool
    http_status: int | None
    idempotency_key: str | None
    limit: int
    models: tuple[str, ...] | None
    note: str | None
    operator: bool
    outcome: OutcomeFilter | None
    request: str | None
    role: Role | None
    rpm: int | None
    search: str | None
    socket: bool
    status: CodeStatus | None
    tpm: int | None


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is being run."""

    options: Options
    config: Config
    output: Output
    actor: Actor = CLI
    """The one under whose name changes are kept as events."""

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

    def show_latest(
        self,
        what: str,
        rows: Sequence[Row],
        describe: Callable[[Row], dict[str, object]],
        columns: Columns[Row],
    ) -> None:
        """Write as many rows as `--limit` allows, and say so if there are more."""
        shown = rows[: self.options.limit]
        self.show_list(shown, describe, columns)
        if len(rows) > len(shown):
            self.say(f"These are the latest {len(shown)} {what}; --limit N shows more.")
