"""One command as its verb sees it: the configuration, the books, who asks; and the verbs for the process."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, TypeVar

from gateway.admin import accounts
from gateway.admin import reload as asking
from gateway.admin.fields import Fields, describe
from gateway.cli.arguments import Json, Output, render
from gateway.cli.verbs import verb
from gateway.config.load import load_config, load_storage
from gateway.config.records import Config
from gateway.exit_codes import ExitCode
from gateway.ledger.opening import find_server
from gateway.ledger.records import CLI, Actor
from gateway.ledger.sql.books.books import Books
from gateway.money import format_amount
from gateway.times import unix_ms

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
            self.say(f"These are the latest {len(shown)} {what}; --limit N shows more.")


MAX_USER_CHARS: Final = 64
"""Characters of a user's name: twice what Linux allows. SUDO_USER may hold anything."""


def find_actor(environ: Mapping[str, str], find_user_id: Callable[[], int] = os.getuid) -> Actor:
    """Return `cli (alice)`, or `cli (alice via sudo)` if sudo says who called it.

    It helps people to ask each other. It proves nothing: who may write the database may set
    SUDO_USER too.
    """
    caller = environ.get("SUDO_USER", "")
    if caller.isprintable() and 0 < len(caller) <= MAX_USER_CHARS:
        return Actor(f"cli ({caller} via sudo)")
    return Actor(f"cli ({_find_user_name(find_user_id())})")


def _find_user_name(user_id: int) -> str:
    try:
        return pwd.getpwuid(user_id).pw_name
    except KeyError:  # as in a container that runs under a number
        return f"user {user_id}"


@verb("serve", "serve", "serve --config /etc/gateway.toml", json=False, load=load_config)
def serve(command: Command) -> int:
    from gateway.server import run_server

    return run_server(command.config)


@verb("reload", "reload", "reload --config /etc/gateway.toml --json", load=load_storage)
def reload(command: Command) -> int:
    location = command.config.storage.location
    with command.open_books() as books:  # first: it says so if the files belong to another user
        pid = find_server(location)
        if pid is None:
            command.say(
                f"No gateway serves from {location} on this machine. If [storage] has changed,"
                " restart the gateway: it goes on with the old one."
            )
            return ExitCode.UNAVAILABLE
        try:
            answer = asking.ask(books, pid)
        except PermissionError:
            command.say(f"The gateway (process {pid}) belongs to another user. Use sudo.")
            return ExitCode.UNAVAILABLE
    if answer is None:
        command.say(
            f"The gateway (process {pid}) was asked, but did not answer within"
            f" {asking.WAIT_SECONDS:.0f} s. Its log and the console's page Health say more."
        )
        return ExitCode.UNAVAILABLE
    command.show(describe(answer, "ok", "at_ms", "words"))
    command.say(answer.words if answer.ok else f"Refused, nothing changed: {answer.words}")
    return ExitCode.OK if answer.ok else ExitCode.CONFIG
