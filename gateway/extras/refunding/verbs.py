"""The command `refund`."""

from __future__ import annotations

from gateway.cli import arguments as read
from gateway.cli.accounts import tell_entry
from gateway.cli.command import Command
from gateway.cli.verbs import arg, flag, verb
from gateway.extras.refunding.book import RefundBook


@verb(
    "refund",
    examples=(
        'refund req_0123456789abcdef --note "the answer was cut off"',
        'refund req_0123456789abcdef 0.25 --note "half of it was wrong"',
    ),
    arguments=(
        arg("request", "REQUEST", "the id of the request, as `calls` lists it"),
        arg(
            "amount",
            read.amount_above_zero,
            "how much (default: what is left of its cost)",
            nargs="?",
        ),
        arg("--note", "TEXT", "the reason, kept with the entry", required=True),
        flag("--force", "give back more than it cost"),
    ),
)
def refund(command: Command, request: str, amount: int | None, *, note: str, force: bool) -> None:
    """Give back what a request cost, or a part of it. The same amount is given back once."""
    book = RefundBook(command.open_books())
    entry = book.give_back(request, amount, note=note, force=force)
    tell_entry(command, entry)
