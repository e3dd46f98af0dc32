"""Top-up codes in the console: operators make, list, void and find them, holders redeem them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, get_args
from urllib.parse import urlencode

from gateway.admin import views
from gateway.base.money import describe_amount, format_amount
from gateway.extras.codes import book
from gateway.extras.codes.book import CodeBook
from gateway.extras.codes.records import CODE, NEW_CODES, CodeStatus
from gateway.extras.console.additions import Addition
from gateway.extras.console.errors import too_many_tries
from gateway.extras.console.lists import read_page
from gateway.extras.console.routes import EVERY_TOKEN, SHOPS, Answer, ConsoleRequest, route
from gateway.extras.console.state import TRIES_SECONDS
from gateway.ledger.sql.books import Books

if TYPE_CHECKING:
    from gateway.extras.finder.book import Finder, Found

ADDITION: Final = Addition(
    scripts=(Path(__file__).with_name("static"),),
    pages=("codes",),
    credit={"redeem": "redeem a code under Billing"},
)

REDEEM_TRIES: Final = 10
"""Wrong codes per account and hour. A code has 80 random bits; people mistype a few."""


@route("GET", "/codes", "operator", EVERY_TOKEN)
def list_codes(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    status = query.optional_choice("status", get_args(CodeStatus))
    page, now_ms = read_page(request, str), books.clock()
    count, found = CodeBook(books).read_page(
        status, query.text("batch"), page.after_text, page.wanted
    )
    return page.answer("codes", found, lambda code: CODE.describe(code, now_ms), count=count)


@route(
    "POST",
    "/codes",
    "operator",
    SHOPS,
    idempotent=True,
    shown_once="These codes were made already, as batch {batch}, and cannot be shown again. If they"
    " are lost, void the batch and make new codes.",
)
def make_codes(books: Books, request: ConsoleRequest) -> Answer:
    with request.fields as fields:
        amount_nano = fields.need_amount_nano("amount")
        count = fields.need_integer("count", 1, book.MAX_CODES)
        expires_ms, note = fields.moment_ms("expires"), fields.text("note") or ""
    made = book.make_codes(books, amount_nano, count, expires_ms=expires_ms, note=note.strip())
    return Answer(NEW_CODES.describe(made), 201, kept={"batch": made.batch})


@route("POST", "/codes/void-batch", "operator", SHOPS)
def void_batch(books: Books, request: ConsoleRequest) -> Answer:
    with request.fields as fields:
        batch = fields.need_text("batch")
    return Answer({"voided": CodeBook(books).void_batch(batch)})


@route("POST", "/codes/{id}/void", "operator", SHOPS)
def void_code(books: Books, request: ConsoleRequest) -> Answer:
    request.fields.done()
    return Answer(CODE.describe(CodeBook(books).void(request.segment()), books.clock()))


@route("POST", "/billing/redeem", "any", idempotent=True)
def redeem(books: Books, request: ConsoleRequest) -> Answer:
    """Redeem a code. Failed tries are limited, as codes could be guessed by trying."""
    with request.fields as fields:
        code = fields.need_text("code")
    account = request.account
    tries = request.console.find_tries("codes", REDEEM_TRIES, TRIES_SECONDS)
    # Counted before the code is looked up; otherwise many simultaneous tries would all pass.
    if wait_seconds := tries.take(account.id):
        message = f"You tried too many wrong codes. Try again in {-(-wait_seconds // 60)} minutes."
        raise too_many_tries(wait_seconds, message)
    entry = book.redeem(books, account.name, code)
    tries.give_back(account.id)
    balance_nano = books.accounts.read(account.name).balance_nano
    return Answer(
        {"entry": views.ENTRY.describe(entry), **describe_amount("balance", balance_nano)}
    )


def make_finder() -> Finder:
    """Make the search by operators: by the last characters, a batch, or a note. Codes themselves are secret."""
    from gateway.extras.finder.book import MOST, Finder, Found  # only where it is

    def find(books: Books, text: str) -> list[Found]:
        now_ms = books.clock()
        return [
            Found(
                one.display,
                f"{format_amount(one.amount_nano)}, {one.status(now_ms)}{one.note and f', {one.note}'}",
                f"/console/codes?{urlencode({'batch': one.batch})}",
            )
            for one in CodeBook(books).search(text, MOST)
        ]

    return Finder("Codes", find)
