"""The verbs for top-up codes."""

from __future__ import annotations

from typing import get_args

from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.verbs import arg, choice, flag, make_expiry, verb
from gateway.extras.codes.book import CodeBook, make_codes
from gateway.extras.codes.records import CODE, NEW_CODES, CodeStatus


@verb(
    "code make",
    examples=(
        "code make --amount 5 --count 20 --expires 90d > codes.txt",
        'code make --amount 25 --note "spring course"',
    ),
    arguments=(
        arg("--amount", read.amount_above_zero, "the value of each code", required=True),
        arg("--count", read.count, "the number of codes", default=1),
        make_expiry("when they expire: 30d"),
        arg("--note", "TEXT", "their purpose, shown in lists"),
    ),
)
def code_make(
    command: Command, amount: int, count: int, expires: read.Expiry | None, note: str | None
) -> None:
    """Make top-up codes and print them on stdout, one per line. They are shown only once."""
    books = command.open_books()
    expires_ms = expires and expires(books.clock())
    made = make_codes(books, amount, count, expires_ms=expires_ms, note=note or "")
    worth = command.format_money(made.amount_nano)
    # First, on stderr: if the codes get lost, their batch can be voided.
    command.say(f"Batch {made.batch}: {count} of {worth}, shown this once:")
    command.show(NEW_CODES.describe(made), "\n".join(made.codes))


@verb(
    "code list",
    examples=("code list", "code list --status open --json"),
    arguments=(choice("--status", get_args(CodeStatus), "list only codes with this status"),),
)
def code_list(command: Command, status: CodeStatus | None) -> None:
    """List codes, without their secrets."""
    _, found = CodeBook(command.open_books()).read_page(status, None, None, None)
    command.show_list(found, CODE)


@verb(
    "code void",
    examples=("code void ID", "code void --batch ID"),
    arguments=(
        arg("id", "ID", "the id, as shown by `code list`"),
        flag("--batch", "ID is the id of a batch"),
    ),
)
def code_void(command: Command, id: str, *, batch: bool) -> None:  # noqa: A002 - the argument's name
    """Void a code, or all open codes of a batch."""
    codes = CodeBook(command.open_books())
    if batch:
        count = codes.void_batch(id)
        command.show({"voided": count})
        command.say(f"Batch {id}: {count} open codes are void.")
    else:
        code = codes.void(id)
        command.show(CODE.describe(code))
        command.say(f"Code {code.id} ({code.display}) is void.")
