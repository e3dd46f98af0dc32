"""The verbs for top-up codes."""

from __future__ import annotations

from gateway.admin import codes, views
from gateway.cli.command import Command
from gateway.cli.tables import CODES
from gateway.times import unix_ms


def code_make(command: Command) -> None:
    """Make codes and print only them to stdout.

    The batch id is written to stderr first: if the codes get lost, the batch can be voided.
    """
    options = command.options
    with command.open_books() as books:
        made = codes.make_codes(
            books,
            options.amount,
            options.count,
            expires_ms=options.expires,
            note=options.note or "",
        )
    worth = command.format_money(made.amount_nano)
    command.say(f"Batch {made.batch}: {options.count} of {worth}, shown this once:")
    command.show(views.describe_new_codes(made), "\n".join(made.codes))


def code_list(command: Command) -> None:
    now_ms = unix_ms()
    with command.open_books() as books:
        found = codes.list_codes(books, command.options.status)
    command.show_list(found, lambda code: views.describe_code(code, now_ms), CODES)


def code_void(command: Command) -> None:
    """Void a code, or the open codes of a batch."""
    id_ = command.options.id
    with command.open_books() as books:
        if command.options.batch:
            count = books.codes.void_batch(id_)
            command.show({"voided": count})
            command.say(f"Batch {id_}: {count} open codes are void.")
        else:
            code = books.codes.void(id_)
            command.show(views.describe_code(code, unix_ms()))
            command.say(f"Code {code.id} ({code.display}) is void.")
