"""Top-up codes: operators make, list and void them; everybody can redeem one."""

from __future__ import annotations

from typing import Final, get_args

import orjson

from gateway.admin import codes, views
from gateway.console.idempotency import idempotent
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import ConsoleError
from gateway.console.state import EVERY_TOKEN, SHOPS, Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.records import CodeStatus, CodeView
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount

STATUSES: Final[tuple[CodeStatus, ...]] = get_args(CodeStatus)


def make_codes(books: Books, request: ConsoleRequest) -> Answer:
    fields = request.fields
    amount_nano = fields.need_amount_nano("amount")
    count = fields.need_integer("count", 1, codes.MAX_CODES)
    expires_ms, note = fields.moment_ms("expires"), fields.text("note") or ""
    fields.done()
    made = codes.make_codes(books, amount_nano, count, expires_ms=expires_ms, note=note.strip())
    return Answer(views.NEW_CODES.describe(made), 201, kept={"batch": made.batch})


def refuse_again(answer: Answer) -> Answer:
    """Refuse to show codes again; the error names the batch, so that it can be voided."""
    assert isinstance(answer.body, bytes)
    batch = orjson.loads(answer.body)["batch"]
    raise ConsoleError(
        409,
        "already_done",
        f"These codes were made already, as batch {batch}, and cannot be shown again. If they are"
        " lost, void the batch and make new codes.",
        more={"batch": batch},
    )


def list_codes(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    status = query.optional_choice("status", STATUSES)
    page = read_page(query, (str,))
    now_ms = books.clock()
    count, found = books.codes.read_page(status, query.text("batch"), page.after_text, page.wanted)
    listing: Listing[CodeView] = Listing(
        "codes", lambda code: (code.id,), lambda code: views.CODE.describe(code, now_ms)
    )
    return listing.answer(request.http, page, found, {"count": count})


def void_code(books: Books, request: ConsoleRequest) -> Answer:
    request.fields.done()
    code = books.codes.void(request.segment("id"))
    return Answer(views.CODE.describe(code, books.clock()))


def void_batch(books: Books, request: ConsoleRequest) -> Answer:
    fields = request.fields
    batch = fields.need_text("batch")
    fields.done()
    return Answer({"voided": books.codes.void_batch(batch)})


def redeem(books: Books, request: ConsoleRequest) -> Answer:
    """Redeem a code. Failed tries are limited, as codes could be guessed by trying."""
    fields = request.fields
    code = fields.need_text("code")
    fields.done()
    account, tries = request.account, request.console.redeem_tries
    seconds = tries.take(account.id)
    if seconds:
        raise ConsoleError(
            429,
            "too_many_tries",
            f"You tried too many wrong codes. Try again in {-(-seconds // 60)} minutes.",
            retry_after_seconds=seconds,
        )
    entry = codes.redeem(books, account.name, code)
    tries.give_back(account.id)
    balance_nano = books.accounts.read(account.name).balance_nano
    return Answer(
        {"entry": views.ENTRY.describe(entry), **describe_amount("balance", balance_nano)}
    )


ROUTES: Final = (
    Route("POST", "/console/api/billing/redeem", "any", idempotent(redeem)),
    Route("GET", "/console/api/codes", "operator", in_books_thread(list_codes), EVERY_TOKEN),
    Route("POST", "/console/api/codes", "operator", idempotent(make_codes, refuse_again), SHOPS),
    Route("POST", "/console/api/codes/void-batch", "operator", in_books_thread(void_batch), SHOPS),
    Route("POST", "/console/api/codes/{id}/void", "operator", in_books_thread(void_code), SHOPS),
)
