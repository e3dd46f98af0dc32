"""Operators' routes for accounts.

Operators list, add, edit, credit, correct, suspend, resume and sign out accounts. Every change of a
balance needs a reason.
"""

from __future__ import annotations

from bisect import bisect_right
from operator import itemgetter
from typing import Final, get_args

from gateway.admin import views
from gateway.base.money import describe_amount, format_amount
from gateway.base.times import DAY_MS, format_day
from gateway.extras.console.errors import ConsoleError, invalid_field, not_for_token, phrase
from gateway.extras.console.fields import read_id
from gateway.extras.console.key_pages import KeyPages
from gateway.extras.console.keys import make_describer
from gateway.extras.console.lists import read_page
from gateway.extras.console.routes import (
    EVERY_TOKEN,
    OPERATORS,
    SHOPS,
    Answer,
    ConsoleRequest,
    route,
)
from gateway.extras.console.session import require_fresh
from gateway.extras.operations.overview import PERIODS
from gateway.extras.refunding.book import RefundBook
from gateway.extras.reports.entries import EntryFilter, EntryRuns
from gateway.extras.reports.ranks import AccountOrder, RankBook
from gateway.extras.reports.standings import STANDING, StandingBook
from gateway.extras.reports.usage import UsageBook
from gateway.extras.signins.sessions import SignInBook
from gateway.ledger.key_records import KeyView, Terms
from gateway.ledger.records import Conflict, EntryView, NotFound
from gateway.ledger.sql.books import Books

MAX_KEYS: Final = 200
"""The most keys on an account's page, those that have not ended first: the page renders at once."""


@route("GET", "/accounts", "operator", EVERY_TOKEN)
def list_accounts(books: Books, request: ConsoleRequest) -> Answer:
    query = request.query
    order = query.choice("sort", get_args(AccountOrder), "name")
    page, search = read_page(request, int, str), query.text("search")
    today = books.clock() // DAY_MS
    # One snapshot, so that ranks, names and standings are of the same accounts.
    with books.snapshot():
        amounts = RankBook(books).rank(order, today=today)
        found = sorted(
            ((-amounts[account_id], name), account_id)
            for name, account_id in books.accounts.find_names(search)
        )
        first = 0 if page.after is None else bisect_right(found, page.after, key=itemgetter(0))
        ids = [account_id for _, account_id in found[first : first + page.wanted]]
        standings = StandingBook(books).read_standings(ids, today=today)
        totals = None if search else _sum_up(books, today)
    return page.answer(
        "accounts",
        standings,
        STANDING.describe,
        lambda one: (-amounts[one.account.id], one.account.name),
        count=len(found),
        totals=totals,
    )


def _sum_up(books: Books, today: int) -> dict[str, object]:
    """Return the sums of all accounts' columns."""
    first = (today - max(PERIODS.values()) + 1) * DAY_MS
    days = UsageBook(books).sum_by("day", account=None, since_ms=first, until_ms=None)
    totals = {
        **describe_amount("balance", RankBook(books).sum_balances()),
        **describe_amount("held", books.measure_pending()[1]),
    }
    for name, count in PERIODS.items():
        since = format_day(today - count + 1)
        spent_nano = sum(one.cost_nano for day, one in days if day >= since)
        totals |= describe_amount(f"spent_{name}", spent_nano)
    return totals


@route("GET", "/accounts/by-name", "operator", EVERY_TOKEN)
def find_account(books: Books, request: ConsoleRequest) -> Answer:
    """Find an account by its exact name."""
    account_id = books.accounts.find_id(request.query.text("name") or "")
    return Answer(_describe_detail(books, account_id))


@route("GET", "/accounts/{id}", "operator", EVERY_TOKEN)
def show_account(books: Books, request: ConsoleRequest) -> Answer:
    return Answer(_describe_detail(books, _read_id(request)))


@route("GET", "/accounts/{id}/entries", "operator", EVERY_TOKEN)
def list_entries(books: Books, request: ConsoleRequest) -> Answer:
    account_id, page = _read_id(request), read_page(request, int)
    run = EntryRuns(books).read_run(EntryFilter(account_id), page.after_number, page.wanted)
    count = EntryRuns(books).count(account_id)
    return page.answer("entries", run.entries, views.ENTRY.describe, count=count)


@route("POST", "/accounts", "operator", SHOPS, idempotent=True)
def add_account(books: Books, request: ConsoleRequest) -> Answer:
    with request.fields as fields:
        name = fields.need_text("name").strip()
        is_operator = fields.boolean("operator") or False
        credit_nano = fields.amount_nano("credit") or 0
        note = (fields.text("note") or "").strip()
        terms = Terms(**fields.terms())
    if is_operator:
        _refuse_token(request)
        require_fresh(books, request)
    if credit_nano:
        _require_note(note)
    account = books.accounts.create(
        name, credit_nano=credit_nano, operator=is_operator, note=note, terms=terms
    )
    return Answer(_describe_detail(books, account.id), 201)


@route("PATCH", "/accounts/{id}", "operator", OPERATORS)
def edit_account(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books)
    with request.fields as fields:
        operator, changes = fields.boolean("operator"), fields.terms()
    if operator is not None:
        _refuse_token(request)
    if operator:
        require_fresh(books, request)
    if operator is False:
        _refuse_own(request, account.id, "demote")
    if changes or operator is not None:
        books.accounts.edit(account.name, changes, operator=operator)
    return Answer(_describe_detail(books, account.id))


@route("POST", "/accounts/{id}/credit", "operator", SHOPS, idempotent=True)
def credit_account(books: Books, request: ConsoleRequest) -> Answer:
    name = request.find_account(books).name
    with request.fields as fields:
        amount_nano, note = fields.need_amount_nano("amount"), fields.need_text("note").strip()
    _require_note(note)
    return _answer_move(books, books.entries.credit(name, amount_nano, note=note))


@route("POST", "/accounts/{id}/correct", "operator", OPERATORS, idempotent=True)
def correct_account(books: Books, request: ConsoleRequest) -> Answer:
    name = request.find_account(books).name
    with request.fields as fields:
        amount_nano, note = fields.need_amount_nano("amount"), fields.need_text("note").strip()
        request_id = (fields.text("request_id") or "").strip() or None
    try:
        entry = books.entries.correct(name, amount_nano, note=note, request_id=request_id)
    except NotFound as error:  # the account was found above, so the request is unknown
        raise invalid_field("request_id", phrase(str(error))) from error
    return _answer_move(books, entry)


@route("POST", "/refunds", "operator", OPERATORS, idempotent=True)
def refund_call(books: Books, request: ConsoleRequest) -> Answer:
    with request.fields as fields:
        request_id = fields.need_text("request_id").strip()
        amount_nano = fields.need_amount_nano("amount") if fields.has("amount") else None
        note, force = fields.need_text("note").strip(), fields.boolean("force") or False
    entry = RefundBook(books).give_back(request_id, amount_nano, note=note, force=force)
    if entry.is_repeated:
        given = format_amount(entry.amount_nano)
        raise Conflict(f"{given} of this call was given back before")
    return _answer_move(books, entry)


@route("POST", "/accounts/{id}/suspend", "operator", OPERATORS)
def suspend_account(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books)
    with request.fields as fields:
        reason = (fields.text("reason") or "").strip()
    _refuse_own(request, account.id, "suspend")
    return Answer(views.ACCOUNT.describe(books.accounts.suspend(account.name, reason=reason)))


@route("POST", "/accounts/{id}/resume", "operator", OPERATORS)
def resume_account(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books)
    request.fields.done()
    return Answer(views.ACCOUNT.describe(books.accounts.resume(account.name)))


@route("POST", "/accounts/{id}/end-sessions", "operator")
def end_sessions(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books)
    request.fields.done()
    _refuse_own(request, account.id, "sign out")
    return Answer({"ended": SignInBook(books).end_all_sessions(account.name)})


def _require_note(note: str) -> None:
    if not note:
        raise invalid_field("note", "'note' is missing: give the reason for the credit.")


def _refuse_own(request: ConsoleRequest, account_id: int, action: str) -> None:
    if request.session is not None and account_id == request.account.id:
        message = f"You cannot {action} your own account here. Ask another operator to do it."
        raise ConsoleError(409, "own_account", message)


def _refuse_token(request: ConsoleRequest) -> None:
    """Raise ConsoleError for a token: one that may make operators could make itself a person."""
    if request.script is not None:
        raise not_for_token("A token cannot say who is an operator.")


def _read_id(request: ConsoleRequest) -> int:
    return read_id(request.segment(), "account")


def _answer_move(books: Books, entry: EntryView) -> Answer:
    account = views.ACCOUNT.describe(books.accounts.read(entry.account))
    return Answer({"entry": views.ENTRY.describe(entry), "account": account})


def _describe_detail(books: Books, account_id: int) -> dict[str, object]:
    """Describe an account with its keys and latest entries. Raises NotFound."""
    standing = StandingBook(books).read_standing(account_id, today=books.clock() // DAY_MS)
    run = EntryRuns(books).read_run(EntryFilter(account_id), None, views.LATEST_ENTRIES)
    describe_key = make_describer(books, account_id)
    return {
        **STANDING.describe(standing),
        "entries": [views.ENTRY.describe(entry) for entry in run.entries],
        "key_list": [describe_key(key) for key in _list_keys(books, account_id)],
        "sessions": len(SignInBook(books).read_sessions(account_id)),
    }


def _list_keys(books: Books, account_id: int) -> list[KeyView]:
    """Return the keys that have not ended, then those that have; the newest first in each group."""
    now_ms = books.clock()
    _, live = KeyPages(books).read_page(account_id, live_at_ms=now_ms, after=None, limit=MAX_KEYS)
    _, newest = KeyPages(books).read_page(account_id, live_at_ms=None, after=None, limit=MAX_KEYS)
    known = {key.id for key in live}
    return [*live, *(key for key in newest if key.id not in known)][:MAX_KEYS]
