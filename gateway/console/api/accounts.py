"""Routes for operators: list, add, edit, credit, correct, suspend, resume and sign out accounts.

Every change of a balance needs a reason.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import partial
from operator import itemgetter
from typing import Any, Final, get_args

from gateway.admin import accounts, signin, views
from gateway.console.api.billing import ENTRIES
from gateway.console.api.session import require_fresh
from gateway.console.fields import read_id
from gateway.console.idempotency import idempotent
from gateway.console.pages import SPENT_DAYS, describe_listed_key
from gateway.console.paging import Listing, Position, read_page
from gateway.console.refusals import ConsoleError, invalid_field, not_for_token, phrase
from gateway.console.state import (
    EVERY_TOKEN,
    OPERATORS,
    SHOPS,
    Answer,
    ConsoleRequest,
    Route,
    find_local,
    in_books_thread,
)
from gateway.ledger.key_records import KeyView, Terms
from gateway.ledger.records import AccountOrder, EntryFilter, EntryView, NotFound, StandingView
from gateway.ledger.sql.books.books import Books
from gateway.money import describe_amount
from gateway.times import DAY_MS, format_iso

MAX_KEYS: Final = 200
"""Keys shown of one account, active ones first: a page that renders at once."""


def list_accounts(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    order = query.choice("sort", get_args(AccountOrder), "name")
    page, search = read_page(query, (int, str)), query.text("search")
    with books.snapshot():
        amounts = books.accounts.rank(order, today=_find_today(books))
        found = sorted(
            ((-amounts[account_id], name), account_id)
            for name, account_id in books.accounts.find_names(search)
        )
        first = 0 if page.after is None else bisect_right(found, page.after, key=itemgetter(0))
        shown = found[first : first + page.wanted]
        ids = [account_id for _, account_id in shown]
        standings = books.accounts.read_standings(ids, today=_find_today(books))
    rows = [(place, one) for (place, _), one in zip(shown, standings, strict=True)]
    return ACCOUNTS.answer(request.http, page, rows, {"count": len(found)})


def find_account(books: Books, request: ConsoleRequest) -> Answer:
    """Find an account by its exact name."""
    account_id = books.accounts.find_id(request.query.text("name") or "")
    return Answer(_describe_detail(books, account_id))


def show_account(books: Books, request: ConsoleRequest) -> Answer:
    return Answer(_describe_detail(books, _read_id(request)))


def list_entries(books: Books, request: ConsoleRequest) -> Answer:
    account_id = _read_id(request)
    page = read_page(request.query, (int,))
    run = books.entries.read_run(EntryFilter(account_id), page.after_number, page.wanted)
    figures = {"count": books.entries.count(account_id)}
    return ENTRIES.answer(request.http, page, run.entries, figures)


def add_account(books: Books, request: ConsoleRequest) -> Answer:
    fields = request.fields
    name = fields.need_text("name").strip()
    is_operator = fields.boolean("operator") or False
    credit_nano = fields.amount_nano("credit") or 0
    note = (fields.text("note") or "").strip()
    terms = Terms(**fields.terms())
    fields.done()
    if is_operator:
        _refuse_token(request)
        require_fresh(books, request)
    if credit_nano and not note:
        raise invalid_field("note", "'note' is missing: give the reason for the credit.")
    account = accounts.add_account(
        books, name, credit_nano=credit_nano, operator=is_operator, note=note, terms=terms
    )
    return Answer(_describe_detail(books, account.id), 201)


def edit_account(books: Books, request: ConsoleRequest) -> Answer:
    account_id = _read_id(request)
    name = books.accounts.find_name(account_id)
    fields = request.fields
    operator, changes = fields.boolean("operator"), fields.terms()
    fields.done()
    if operator is not None:
        _refuse_token(request)
    if operator:
        require_fresh(books, request)
    if operator is False:
        _refuse_own(request, account_id, "demote")
    if changes or operator is not None:
        accounts.edit_account(books, name, changes, operator=operator)
    return Answer(_describe_detail(books, account_id))


def end_sessions(books: Books, request: ConsoleRequest) -> Answer:
    account_id = _read_id(request)
    name = books.accounts.find_name(account_id)
    request.fields.done()
    _refuse_own(request, account_id, "sign out")
    return Answer({"ended": books.signins.end_all_sessions(name)})


def credit_account(books: Books, request: ConsoleRequest) -> Answer:
    name = books.accounts.find_name(_read_id(request))
    fields = request.fields
    amount_nano, note = fields.need_amount_nano("amount"), fields.need_text("note").strip()
    fields.done()
    if not note:
        raise invalid_field("note", "'note' is missing: give the reason for the credit.")
    return _answer_move(books, accounts.credit(books, name, amount_nano, note=note))


def correct_account(books: Books, request: ConsoleRequest) -> Answer:
    name = books.accounts.find_name(_read_id(request))
    fields = request.fields
    amount_nano, note = fields.need_amount_nano("amount"), fields.need_text("note").strip()
    request_id = (fields.text("request_id") or "").strip() or None
    fields.done()
    try:
        entry = accounts.correct(books, name, amount_nano, note=note, request_id=request_id)
    except NotFound as error:  # the account was found above, so the request is unknown
        raise invalid_field("request_id", phrase(str(error))) from error
    return _answer_move(books, entry)


def suspend_account(books: Books, request: ConsoleRequest) -> Answer:
    account_id = _read_id(request)
    name = books.accounts.find_name(account_id)
    fields = request.fields
    reason = (fields.text("reason") or "").strip()
    fields.done()
    _refuse_own(request, account_id, "suspend")
    return Answer(views.ACCOUNT.describe(accounts.suspend(books, name, reason=reason)))


def resume_account(books: Books, request: ConsoleRequest) -> Answer:
    name = books.accounts.find_name(_read_id(request))
    request.fields.done()
    return Answer(views.ACCOUNT.describe(books.accounts.resume(name)))


async def make_signin_link(request: ConsoleRequest) -> Answer:
    """Make a sign-in link to `public_url` or, if unset, to the address of this request."""
    request.fields.done()
    base_url = signin.find_base_url(request.gateway.config.server, find_local(request.http))
    return await request.run(partial(_make_link, request, base_url))


def _make_link(request: ConsoleRequest, base_url: str, books: Books) -> Answer:
    require_fresh(books, request)
    link = signin.make_signin_link(books, books.accounts.find_name(_read_id(request)))
    return Answer({"url": link.url(base_url), "expires": format_iso(link.expires_ms)}, 201)


def _refuse_own(request: ConsoleRequest, account_id: int, action: str) -> None:
    if request.session is not None and account_id == request.account.id:
        raise ConsoleError(
            409,
            "own_account",
            f"You cannot {action} your own account here. Ask another operator to do it.",
        )


def _refuse_token(request: ConsoleRequest) -> None:
    """Refuse to let a token decide who is an operator: it could make itself a person."""
    if request.token is not None:
        raise not_for_token("A token cannot say who is an operator.")


def _read_id(request: ConsoleRequest) -> int:
    return read_id(request.segment("id"), "account")


def _find_today(books: Books) -> int:
    return books.clock() // DAY_MS


def _answer_move(books: Books, entry: EntryView) -> Answer:
    account = views.ACCOUNT.describe(books.accounts.read(entry.account))
    return Answer({"entry": views.ENTRY.describe(entry), "account": account})


def _describe_standing(standing: StandingView) -> dict[str, Any]:
    return {
        **views.ACCOUNT.describe(standing.account),
        **describe_amount("spent_today", standing.spent.today_nano),
        **describe_amount("spent_7d", standing.spent.week_nano),
        **describe_amount("spent_30d", standing.spent.month_nano),
        "keys": standing.keys,
        "last_used": format_iso(standing.last_used_ms),
        "has_password": standing.has_password,
    }


def _describe_detail(books: Books, account_id: int) -> dict[str, Any]:
    """Describe an account with its keys and latest entries. Raises NotFound."""
    today, now_ms = _find_today(books), books.clock()
    standing = books.accounts.read_standing(account_id, today=today)
    spent = books.usage.sum_by_key(account_id, today - SPENT_DAYS + 1, today)
    run = books.entries.read_run(EntryFilter(account_id), None, accounts.LATEST_ENTRIES)
    return {
        **_describe_standing(standing),
        "entries": [views.ENTRY.describe(entry) for entry in run.entries],
        "key_list": [
            describe_listed_key(key, now_ms, spent) for key in _list_keys(books, account_id, now_ms)
        ],
        "sessions": len(books.signins.read_sessions(account_id)),
    }


def _list_keys(books: Books, account_id: int, now_ms: int) -> list[KeyView]:
    """Return the keys that have not ended, then those that have; the newest first in each group."""
    _, live = books.keys.read_page(account_id, live_at_ms=now_ms, after=None, limit=MAX_KEYS)
    _, newest = books.keys.read_page(account_id, live_at_ms=None, after=None, limit=MAX_KEYS)
    known = {key.id for key in live}
    return [*live, *(key for key in newest if key.id not in known)][:MAX_KEYS]


ACCOUNTS: Final[Listing[tuple[Position, StandingView]]] = Listing(
    "accounts", itemgetter(0), lambda row: _describe_standing(row[1])
)

_PATH: Final = "/console/api/accounts"
ROUTES: Final = (
    Route("GET", _PATH, "operator", in_books_thread(list_accounts), EVERY_TOKEN),
    Route("POST", _PATH, "operator", idempotent(add_account), SHOPS),
    Route("GET", f"{_PATH}/by-name", "operator", in_books_thread(find_account), EVERY_TOKEN),
    Route("GET", f"{_PATH}/{{id}}", "operator", in_books_thread(show_account), EVERY_TOKEN),
    Route("PATCH", f"{_PATH}/{{id}}", "operator", in_books_thread(edit_account), OPERATORS),
    Route("GET", f"{_PATH}/{{id}}/entries", "operator", in_books_thread(list_entries), EVERY_TOKEN),
    Route("POST", f"{_PATH}/{{id}}/credit", "operator", idempotent(credit_account), SHOPS),
    Route("POST", f"{_PATH}/{{id}}/correct", "operator", idempotent(correct_account), OPERATORS),
    Route(
        "POST",
        f"{_PATH}/{{id}}/suspend",
        "operator",
        in_books_thread(suspend_account),
        OPERATORS,
    ),
    Route("POST", f"{_PATH}/{{id}}/resume", "operator", in_books_thread(resume_account), OPERATORS),
    Route("POST", f"{_PATH}/{{id}}/end-sessions", "operator", in_books_thread(end_sessions)),
    Route("POST", f"{_PATH}/{{id}}/signin-link", "operator", make_signin_link),
)
