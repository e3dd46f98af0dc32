"""Top-up codes: operators make, list and void them; everybody redeems."""

from __future__ import annotations

from typing import Final, get_args

import orjson

from gateway import codes
from gateway.console.once import once
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import ConsoleError
from gateway.console.state import Answer, Route, Visit, on_desk
from gateway.ledger.books import Books
from gateway.ledger.code_records import CodeStatus, CodeView
from gateway.views import describe_code, describe_entry, describe_new_codes, money

STATUSES: Final[tuple[CodeStatus, ...]] = get_args(CodeStatus)


def make_codes(books: Books, visit: Visit) -> Answer:
    fields = visit.fields
    amount_nano = fields.need_amount_nano("amount")
    count = fields.need_integer("count", 1, codes.MAX_CODES)
    expires_ms, note = fields.moment_ms("expires"), fields.text("note") or ""
    fields.done()
    made = codes.make_codes(books, amount_nano, count, expires_ms=expires_ms, note=note.strip())
    return Answer(describe_new_codes(made), 201, kept={"batch": made.batch})


def refuse_again(answer: Answer) -> Answer:
    """The codes were shown once: a repeated request learns which they were, not what they say."""
    assert isinstance(answer.body, bytes)
    batch = orjson.loads(answer.body)["batch"]
    raise ConsoleError(
        409,
        "already_done",
        f"These codes were made and shown once, as {batch}. If they are lost, void that batch and"
        " make new ones.",
        more={"batch": batch},
    )


def list_codes(books: Books, visit: Visit) -> Answer:
    query = visit.query
    status = query.optional_choice("status", STATUSES)
    page = read_page(query, (str,))
    now_ms = books.clock()
    count, found = books.codes_page(status, query.text("batch"), page.after_text, page.wanted)
    listing: Listing[CodeView] = Listing(
        "codes", lambda code: (code.id,), lambda code: describe_code(code, now_ms)
    )
    return listing.answer(visit.request, page, found, {"count": count})


def void_code(books: Books, visit: Visit) -> Answer:
    visit.fields.done()
    code = codes.void_code(books, visit.segment("id"))
    return Answer(describe_code(code, books.clock()))


def void_batch(books: Books, visit: Visit) -> Answer:
    fields = visit.fields
    batch = fields.need_text("batch")
    fields.done()
    return Answer({"voided": codes.void_batch(books, batch)})


def redeem(books: Books, visit: Visit) -> Answer:
    """Only what fails counts as a try: codes are guessed by trying."""
    fields = visit.fields
    code = fields.need_text("code")
    fields.done()
    account, tries = visit.account, visit.console.redeem_tries
    seconds = tries.take(account.id)
    if seconds:
        raise ConsoleError(
            429,
            "too_many_tries",
            f"Too many codes were tried. Try again in {-(-seconds // 60)} minutes.",
            retry_after_seconds=seconds,
        )
    entry = codes.redeem(books, account.name, code)
    tries.give_back(account.id)
    balance_nano = books.account(account.name).balance_nano
    return Answer({"entry": describe_entry(entry), **money("balance", balance_nano)})


ROUTES: Final = (
    Route("POST", "/console/api/billing/redeem", "any", once(redeem)),
    Route("GET", "/console/api/codes", "operator", on_desk(list_codes)),
    Route("POST", "/console/api/codes", "operator", once(make_codes, refuse_again)),
    Route("POST", "/console/api/codes/void-batch", "operator", on_desk(void_batch)),
    Route("POST", "/console/api/codes/{id}/void", "operator", on_desk(void_code)),
)
