"""The operator's verbs for top-up codes, and their grammar."""

from __future__ import annotations

from typing import Final

from gateway import cli_arguments as types
from gateway import codes
from gateway.cli_tables import table_codes
from gateway.cli_verbs import OK, Call
from gateway.cli_words import JSON, Verb, arg
from gateway.money import format_amount
from gateway.times import unix_ms
from gateway.views import describe_code, describe_new_codes


def code_make(call: Call) -> int:
    """The codes alone on stdout. Their batch goes first: were they lost, it can be voided."""
    options = call.options
    with call.open_books() as books:
        made = codes.make_codes(
            books,
            options.amount,
            options.count,
            expires_ms=options.expires,
            note=options.note or "",
        )
    worth = f"{format_amount(made.amount_nano)} {call.currency}"
    call.console.say(f"Batch {made.batch}: {options.count} of {worth}, shown this once:")
    if options.json:
        call.console.print_json(describe_new_codes(made))
    else:
        call.console.print("\n".join(made.codes))
    return OK


def code_list(call: Call) -> int:
    with call.open_books() as books:
        found = codes.list_codes(books, call.options.status)
    if call.options.json:
        call.console.print_json([describe_code(code, unix_ms()) for code in found])
    else:
        call.console.print(table_codes(found, call.currency, unix_ms()))
    return OK


def code_void(call: Call) -> int:
    options = call.options
    if options.batch:
        return _void_batch(call)
    with call.open_books() as books:
        code = codes.void_code(books, options.id)
    if options.json:
        call.console.print_json(describe_code(code, unix_ms()))
    call.console.say(f"Code {code.id} ({code.display}) is void.")
    return OK


def _void_batch(call: Call) -> int:
    with call.open_books() as books:
        count = codes.void_batch(books, call.options.id)
    if call.options.json:
        call.console.print_json({"voided": count})
    call.console.say(f"Of batch {call.options.id}, codes that were open and are void now: {count}.")
    return OK


CODE_VERBS: Final = (
    Verb(
        "code make",
        "Make top-up codes; they are printed on stdout, one a line, this once.",
        code_make,
        (
            "code make --amount 5 --count 20 --expires 90d > codes.txt",
            'code make --amount 25 --note "spring course"',
        ),
        (
            arg(
                "--amount",
                metavar="AMOUNT",
                type=types.amount_above_zero,
                required=True,
                help="what each is worth",
            ),
            arg("--count", metavar="N", type=types.count, default=1, help="how many; 1 by default"),
            arg(
                "--expires",
                metavar="TIME",
                type=types.expiry,
                help="30d, 2026-12-31 or 2026-12-31T18:00 (UTC); never by default",
            ),
            arg("--note", metavar="TEXT", type=types.word, help="what they are for"),
            JSON,
        ),
    ),
    Verb(
        "code list",
        "List codes, without their secrets.",
        code_list,
        ("code list", "code list --status open --json"),
        (
            arg(
                "--status",
                choices=("open", "redeemed", "void", "expired"),
                help="those alone that are so",
            ),
            JSON,
        ),
    ),
    Verb(
        "code void",
        "End a code, or what is open of a batch.",
        code_void,
        ("code void ID", "code void --batch ID"),
        (
            arg("id", metavar="ID", type=types.word, help="its id, as in `code list`"),
            arg("--batch", action="store_true", help="the id is a batch's"),
            JSON,
        ),
    ),
)
