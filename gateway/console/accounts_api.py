"""For operators: all accounts, and what is done to one. Every move of money has a reason."""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from typing import Any, Final

from gateway import accounts, signin
from gateway.console.billing_api import ENTRIES
from gateway.console.once import once
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import ConsoleError, invalid_field, phrase
from gateway.console.state import Answer, Route, Visit, find_local, on_desk
from gateway.console.views import SPENT_DAYS, describe_listed_key
from gateway.ledger.books import Books
from gateway.ledger.records import (
    EntryFilter,
    EntryView,
    KeyView,
    NotFound,
    StandingView,
)
from gateway.times import DAY_MS, format_iso
from gateway.views import describe_account, describe_entry, money

MAX_KEYS: Final = 200
"""Shown of one account: those that work first."""

_MAX_ID_CHARS: Final = 15


def list_accounts(books: Books, visit: Visit) -> Answer:
    query = visit.query
    page, search = read_page(query, (str,)), query.text("search")
    found = books.find_accounts(search)
    first = bisect_right(found, page.after_text or "", key=lambda pair: pair[0])
    ids = [account_id for _, account_id in found[first : first + page.wanted]]
    standings = books.standings(ids, since_day=_find_since_day(books))
    return ACCOUNTS.answer(visit.request, page, standings, {"count": len(found)})


def find_account(books: Books, visit: Visit) -> Answer:
    """By its exact name."""
    account_id = books.account_id(visit.query.text("name") or "")
    return Answer(_describe_detail(books, account_id))


def show_account(books: Books, visit: Visit) -> Answer:
    return Answer(_describe_detail(books, _read_id(visit)))


def list_entries(books: Books, visit: Visit) -> Answer:
    account_id = _read_id(visit)
    page = read_page(visit.query, (int,))
    run = books.entry_run(EntryFilter(account_id), page.after_number, page.wanted)
    figures = {"count": books.count_entries(account_id)}
    return ENTRIES.answer(visit.request, page, run.entries, figures)


def add_account(books: Books, visit: Visit) -> Answer:
    fields = visit.fields
    name = fields.need_text("name").strip()
    is_operator = fields.boolean("operator") or False
    credit_nano = fields.amount_nano("credit") or 0
    note = (fields.text("note") or "").strip()
    fields.done()
    if credit_nano and not note:
        raise invalid_field("note", "'note' is missing: say why there is a credit.")
    account = accounts.add_account(
        books, name, credit_nano=credit_nano, operator=is_operator, note=note
    )
    return Answer(_describe_detail(books, account.id), 201)


def credit_account(books: Books, visit: Visit) -> Answer:
    name = books.account_name(_read_id(visit))
    fields = visit.fields
    amount_nano, note = fields.need_amount_nano("amount"), fields.need_text("note").strip()
    fields.done()
    if not note:
        raise invalid_field("note", "'note' is missing: say why there is a credit.")
    return _answer_move(books, accounts.credit(books, name, amount_nano, note=note))


def correct_account(books: Books, visit: Visit) -> Answer:
    name = books.account_name(_read_id(visit))
    fields = visit.fields
    amount_nano, note = fields.need_amount_nano("amount"), fields.need_text("note").strip()
    request_id = (fields.text("request_id") or "").strip() or None
    fields.done()
    try:
        entry = accounts.correct(books, name, amount_nano, note=note, request_id=request_id)
    except NotFound as error:  # the account is there, so it is the request that is not
        raise invalid_field("request_id", phrase(str(error))) from error
    return _answer_move(books, entry)


def suspend_account(books: Books, visit: Visit) -> Answer:
    account_id = _read_id(visit)
    name = books.account_name(account_id)
    fields = visit.fields
    reason = (fields.text("reason") or "").strip()
    fields.done()
    if account_id == visit.account.id:
        raise ConsoleError(
            409, "own_account", "This is your own account. Another operator may suspend it."
        )
    return Answer(describe_account(accounts.suspend(books, name, reason=reason)))


def resume_account(books: Books, visit: Visit) -> Answer:
    name = books.account_name(_read_id(visit))
    visit.fields.done()
    return Answer(describe_account(accounts.resume(books, name)))


async def make_signin_link(visit: Visit) -> Answer:
    """The link leads where the operator is: to `public_url`, or the address that was asked."""
    visit.fields.done()
    base_url = signin.find_base_url(visit.gateway.config.server, find_local(visit.request))
    return await visit.run(partial(_make_link, visit, base_url))


def _make_link(visit: Visit, base_url: str, books: Books) -> Answer:
    link = signin.make_signin_link(books, books.account_name(_read_id(visit)))
    return Answer({"url": link.url(base_url), "expires": format_iso(link.expires_ms)}, 201)


def _read_id(visit: Visit) -> int:
    """Raises NotFound for what no account's id can be; each has one address, for `once`."""
    text = visit.segment("id")
    is_id = text.isascii() and text.isdigit() and len(text) <= _MAX_ID_CHARS
    if not is_id or text.startswith("0"):
        raise NotFound("there is no such account")
    return int(text)


def _find_since_day(books: Books) -> int:
    return books.clock() // DAY_MS - SPENT_DAYS + 1


def _answer_move(books: Books, entry: EntryView) -> Answer:
    account = describe_account(books.account(entry.account))
    return Answer({"entry": describe_entry(entry), "account": account})


def _describe_standing(standing: StandingView) -> dict[str, Any]:
    return {
        **describe_account(standing.account),
        **money("spent_30d", standing.spent_nano),
        "keys": standing.keys,
        "last_used": format_iso(standing.last_used_ms),
        "has_password": standing.has_password,
    }


def _describe_detail(books: Books, account_id: int) -> dict[str, Any]:
    """Raises NotFound."""
    since_day, now_ms = _find_since_day(books), books.clock()
    standing = books.standing(account_id, since_day=since_day)
    spent = books.spent_by_key(account_id, since_day, now_ms // DAY_MS)
    run = books.entry_run(EntryFilter(account_id), None, accounts.LATEST_ENTRIES)
    return {
        **_describe_standing(standing),
        "entries": [describe_entry(entry) for entry in run.entries],
        "key_list": [
            describe_listed_key(key, now_ms, spent) for key in _list_keys(books, account_id, now_ms)
        ],
        "sessions": len(books.sessions(account_id)),
    }


def _list_keys(books: Books, account_id: int, now_ms: int) -> list[KeyView]:
    """Those that have not ended, then those that have; each the newest first."""
    _, live = books.keys_page(account_id, live_at_ms=now_ms, after=None, limit=MAX_KEYS)
    _, newest = books.keys_page(account_id, live_at_ms=None, after=None, limit=MAX_KEYS)
    known = {key.id for key in live}
    return [*live, *(key for key in newest if key.id not in known)][:MAX_KEYS]


ACCOUNTS: Final = Listing("accounts", lambda standing: (standing.account.name,), _describe_standing)

ROUTES: Final = (
    Route("GET", "/console/api/accounts", "operator", on_desk(list_accounts)),
    Route("POST", "/console/api/accounts", "operator", once(add_account)),
    Route("GET", "/console/api/accounts/by-name", "operator", on_desk(find_account)),
    Route("GET", "/console/api/accounts/{id}", "operator", on_desk(show_account)),
    Route("GET", "/console/api/accounts/{id}/entries", "operator", on_desk(list_entries)),
    Route("POST", "/console/api/accounts/{id}/credit", "operator", once(credit_account)),
    Route("POST", "/console/api/accounts/{id}/correct", "operator", once(correct_account)),
    Route("POST", "/console/api/accounts/{id}/suspend", "operator", on_desk(suspend_account)),
    Route("POST", "/console/api/accounts/{id}/resume", "operator", on_desk(resume_account)),
    Route("POST", "/console/api/accounts/{id}/signin-link", "operator", make_signin_link),
)
