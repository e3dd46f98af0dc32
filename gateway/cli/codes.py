"""The verbs for top-up codes."""

from __future__ import annotations

from functools import partial
from typing import Final, get_args

from gateway.admin import codes, views
from gateway.cli import arguments as read
from gateway.cli.command import Command
from gateway.cli.output import Columns
from gateway.cli.verbs import JSON, arg, choice, flag, verb
from gateway.ledger import CodeStatus, CodeView
from gateway.money import format_amount
from gateway.times import format_moment, unix_ms


def state_of_code(code: CodeView) -> str:
    """Describe what became of a code, or until when it can be redeemed."""
    status = code.status(unix_ms())
    if status == "open":
        return f"until {format_moment(code.expires_ms)}" if code.expires_ms else "open"
    ended_ms = {"redeemed": code.redeemed_ms, "void": code.voided_ms, "expired": code.expires_ms}
    return f"{status} {format_moment(ended_ms[status] or 0)}"


CODES: Final[Columns[CodeView]] = (
    ("ID", lambda code: code.id),
    ("BATCH", lambda code: code.batch),
    ("CODE", lambda code: code.display),
    ("AMOUNT {}", lambda code: format_amount(code.amount_nano)),
    ("STATE", state_of_code),
    ("BY", lambda code: code.redeemed_by or "-"),
    ("NOTE", lambda code: code.note or "-"),
)


@verb(
    "code make",
    "code make --amount 5 --count 20 --expires 90d > codes.txt",
    'code make --amount 25 --note "spring course"',
    arguments=(
        arg("--amount", "AMOUNT", read.amount_above_zero, "the value of each code", required=True),
        arg("--count", "N", read.count, "the number of codes", default=1),
        arg(
            "--expires",
            "TIME",
            read.expiry,
            "when they expire: 30d, 2026-12-31 or 2026-12-31T18:00 in UTC (default: never)",
        ),
        arg("--note", "TEXT", read.word, "their purpose, shown in lists"),
        JSON,
    ),
)
def code_make(
    command: Command, amount: int, count: int, expires: read.Expiry | None, note: str | None
) -> None:
    """Make top-up codes and print them on stdout, one per line. They are shown only once."""
    with command.open_books() as books:
        expires_ms = read.resolve_expiry(expires, books.clock())
        made = codes.make_codes(books, amount, count, expires_ms=expires_ms, note=note or "")
    worth = command.format_money(made.amount_nano)
    # First, on stderr: if the codes get lost, their batch can be voided.
    command.say(f"Batch {made.batch}: {count} of {worth}, shown this once:")
    command.show(views.describe_new_codes(made), "\n".join(made.codes))


@verb(
    "code list",
    "code list",
    "code list --status open --json",
    arguments=(
        choice("--status", get_args(CodeStatus), "list only codes with this status"),
        JSON,
    ),
)
def code_list(command: Command, status: CodeStatus | None) -> None:
    """List codes, without their secrets."""
    now_ms = unix_ms()
    with command.open_books() as books:
        found = codes.list_codes(books, status)
    command.show_list(found, partial(views.describe_code, now_ms=now_ms), CODES)


@verb(
    "code void",
    "code void ID",
    "code void --batch ID",
    arguments=(
        arg("id", "ID", read.word, "the id, as shown by `code list`"),
        flag("--batch", "ID is the id of a batch"),
        JSON,
    ),
)
def code_void(command: Command, id: str, *, batch: bool) -> None:  # noqa: A002 - the argument's name
    """Void a code, or all open codes of a batch."""
    with command.open_books() as books:
        if batch:
            count = books.codes.void_batch(id)
            command.show({"voided": count})
            command.say(f"Batch {id}: {count} open codes are void.")
        else:
            code = books.codes.void(id)
            command.show(views.describe_code(code, unix_ms()))
            command.say(f"Code {code.id} ({code.display}) is void.")
