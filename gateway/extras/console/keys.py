"""The signed-in account's keys, and budgets that keys share.

Operators manage any account's keys and budgets. Only the reply that makes a secret contains it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Final, cast, get_args

from gateway.admin import keys, views
from gateway.base.money import describe_amount
from gateway.base.times import DAY_MS
from gateway.extras.console.errors import ConsoleError, invalid_field
from gateway.extras.console.fields import Fields, read_id
from gateway.extras.console.key_pages import KeyPages
from gateway.extras.console.lists import read_page
from gateway.extras.console.routes import EVERY_TOKEN, SHOPS, Answer, ConsoleRequest, route
from gateway.extras.reports.usage import UsageBook
from gateway.extras.shared_budgets.book import BUDGET, BudgetChanges, SharedBudgets
from gateway.ledger.budget_records import Allowance, Period
from gateway.ledger.key_records import LIMITS, KeyChanges, KeyTerms, KeyView, NewKey, TermChanges
from gateway.ledger.records import MAX_INTEGER
from gateway.ledger.sql.books import Books

MAX_LIVE_KEYS: Final = 1000
"""The most live keys of an account to which the console adds another: all are in the server's memory. The CLI
has no limit."""
MAX_BUDGETS: Final = 100
"""The most budgets of an account that the console makes: one reply lists them all. The CLI has no limit."""
SPENT_DAYS: Final = 30
"""Days of `spent_30d`, today included, as its name says."""
MAX_UNUSED_DAYS: Final = 36_500
"""A century: older than any key."""


@route("GET", "/keys", "any")
def list_keys(books: Books, request: ConsoleRequest) -> Answer:
    """List keys, the newest or the dearest first. `live` keys have not ended, even if their cap is spent."""
    is_live = request.query.choice("status", ("live", "all"), "live") == "live"
    order = request.query.choice("sort", ("newest", "spent_30d"), "newest")
    page, live_at_ms = read_page(request, int, str), books.clock() if is_live else None
    account_id, locate = request.account.id, attrgetter("created_ms", "id")
    describe = make_describer(books, account_id)
    read = partial(KeyPages(books).read_page, account_id, live_at_ms=live_at_ms)
    if order == "newest":
        count, found = read(after=page.after, limit=page.wanted)
        return page.answer("keys", found, describe, locate, count=count)
    with books.snapshot():
        count, found = read(after=None, limit=MAX_INTEGER)
        today = books.clock() // DAY_MS
        spent = UsageBook(books).sum_by_key(account_id, today - SPENT_DAYS + 1, today)

    def rank(key: KeyView) -> tuple[int, str]:
        return -spent.get(key.id, 0), key.id

    found.sort(key=rank)
    first = 0 if page.after is None else bisect_right(found, page.after, key=rank)
    shown = found[first : first + page.wanted]
    return page.answer("keys", shown, describe, rank, count=count)


@route("GET", "/accounts/keys", "operator", EVERY_TOKEN)
def list_all_keys(books: Books, request: ConsoleRequest) -> Answer:
    """List the keys of all accounts that have not ended, the longest unused first."""
    page, now_ms = read_page(request, int, str), books.clock()
    since_ms = now_ms - request.query.integer("unused_days", 0, MAX_UNUSED_DAYS, 0) * DAY_MS
    with books.snapshot():
        unused = [key for key in books.keys.read_all() if key.is_unused(since_ms, now_ms)]
        unused.sort(key=_locate_key)
        first = 0 if page.after is None else bisect_right(unused, page.after, key=_locate_key)
        shown = unused[first : first + page.wanted]
        describers = {
            name: make_describer(books, books.accounts.find_id(name))
            for name in {key.account for key in shown}
        }
    return page.answer(
        "keys", shown, lambda key: describers[key.account](key), _locate_key, count=len(unused)
    )


def _locate_key(key: KeyView) -> tuple[int, str]:
    return key.last_used_ms or 0, key.id


@route("GET", "/keys/{id}", "any")
def show_key(books: Books, request: ConsoleRequest) -> Answer:
    owner = _find_owner(books, request)
    return Answer(make_describer(books, owner)(books.keys.read(request.segment())))


def _find_owner(books: Books, request: ConsoleRequest) -> int:
    """Return the id of the account that has the key in the path. Operators and tokens may name any key.

    Raises:
        NotFound: there is no such key, or it is of another account than a holder's own.
    """
    is_any = request.script is not None or request.account.operator
    owner = None if is_any else request.account.id
    return books.accounts.find_id(books.keys.read(request.segment(), account_id=owner).account)


@route("POST", "/keys", "any")
@route(
    "POST",
    "/accounts/{id}/keys",
    "operator",
    SHOPS,
    idempotent=True,
    shown_once="This key was made already, as {key}, and cannot be shown again. If it is lost,"
    " revoke it and make another one.",
)
def add_key(books: Books, request: ConsoleRequest) -> Answer:
    """Add a key to the signed-in account or, as shops do for their customers, to any account."""
    account = request.find_account(books)
    request.refuse_operators(account)
    changes, own = _read_changes(request)
    # One row, as only the count is wanted.
    live, _ = KeyPages(books).read_page(account.id, live_at_ms=books.clock(), after=None, limit=1)
    if live >= MAX_LIVE_KEYS:
        message = (
            f"The account has {MAX_LIVE_KEYS:,} live keys already. Revoke those it does not need."
        )
        raise ConsoleError(409, "too_many_keys", message)
    made = keys.add_key(books, account.name, KeyTerms(**changes), own=own)
    return Answer(_describe_new(books, account.id, made), 201, kept={"key": made.key.id})


@route("PATCH", "/keys/{id}", "any")
def edit_key(books: Books, request: ConsoleRequest) -> Answer:
    changes, own = _read_changes(request)
    if not changes and own is None:
        return show_key(books, request)
    owner = _find_owner(books, request)
    key = books.keys.edit(request.segment(), changes, own=own, account_id=owner)
    return Answer(make_describer(books, owner)(key))


@route("POST", "/keys/{id}/rotate", "any")
def rotate_key(books: Books, request: ConsoleRequest) -> Answer:
    with request.fields as fields:
        grace_seconds = fields.need_integer("grace_seconds", 0, keys.MAX_GRACE_SECONDS)
    key_id, owner = request.segment(), _find_owner(books, request)
    made = keys.rotate_key(books, key_id, grace_seconds=grace_seconds, account_id=owner)
    old = books.keys.read(key_id, account_id=owner)
    body = _describe_new(books, owner, made)
    return Answer({**body, "old": make_describer(books, owner)(old)}, 201)


@route("POST", "/keys/{id}/revoke", "any", SHOPS)
def revoke_key(books: Books, request: ConsoleRequest) -> Answer:
    """Revoke a key. Holders revoke their own keys; operators and tokens revoke any key."""
    request.fields.done()
    owner = _find_owner(books, request)
    request.refuse_operators(books.accounts.read(books.read_account_name(owner)))
    key = books.keys.revoke(request.segment(), account_id=owner)
    return Answer(make_describer(books, owner)(key))


def _read_changes(request: ConsoleRequest) -> tuple[KeyChanges, Allowance | None]:
    """Read the changes, and the key's own budget; null clears a value."""
    with request.fields as fields:
        changes = cast(KeyChanges, fields.terms())  # which may get further names
        _require_narrower(changes, request)
        if fields.has("name"):
            changes["name"] = (fields.text("name") or "").strip()
        if fields.has("cap"):
            changes["cap_nano"] = fields.amount_nano("cap")
        if fields.has("expires"):
            changes["expires_ms"] = fields.moment_ms("expires")
        own = _read_allowance(fields, "budget_")
        if fields.has("budget_id"):
            if own is not None:
                raise invalid_field(
                    "budget_id", "Give 'budget_id' or an amount and a period, not both."
                )
            changes["budget_id"] = fields.integer("budget_id", 1, MAX_INTEGER)
    return changes, own


def _require_narrower(changes: TermChanges, request: ConsoleRequest) -> None:
    """Raise ConsoleError if a holder sets a limit above the keys' default, which only operators may."""
    if request.script is not None or request.account.operator:
        return
    for name in LIMITS:
        limit, most = changes.get(name), getattr(request.gateway.config.limits, name)
        if most and limit is not None and not 1 <= limit <= most:
            message = f"'{name}' must be a whole number from 1 to {most}, the limit of other keys."
            raise invalid_field(name, message)


def _describe_new(books: Books, account_id: int, made: NewKey) -> dict[str, object]:
    return {"key": make_describer(books, account_id)(made.key), "secret": made.secret}


def make_describer(books: Books, account_id: int) -> Callable[[KeyView], dict[str, object]]:
    """Return a function that describes a key of the account, with its status and its cost in 30 days."""
    now_ms = books.clock()
    today = now_ms // DAY_MS
    spent_nano = UsageBook(books).sum_by_key(account_id, today - SPENT_DAYS + 1, today)
    return lambda key: {
        **views.KEY.describe(key),
        **describe_amount("spent_30d", spent_nano.get(key.id, 0)),
        "status": key.status(now_ms),
    }


@route("GET", "/budgets", "any")
@route("GET", "/accounts/{id}/budgets", "operator", EVERY_TOKEN)
def list_budgets(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books)
    found = [BUDGET.describe(one) for one in SharedBudgets(books).read_named(account.name)]
    return Answer({"count": len(found), "budgets": found})


@route("POST", "/budgets", "any", idempotent=True)
@route("POST", "/accounts/{id}/budgets", "operator", SHOPS, idempotent=True)
def add_budget(books: Books, request: ConsoleRequest) -> Answer:
    account = request.find_account(books)
    request.refuse_operators(account)
    with request.fields as fields:
        name, allowance = fields.need_text("name").strip(), _read_allowance(fields)
    if allowance is None:
        raise invalid_field("amount", "'amount' is missing.")
    budgets = SharedBudgets(books)
    if len(budgets.read_named(account.name)) >= MAX_BUDGETS:
        message = f"There are {MAX_BUDGETS} budgets already. Remove those that are not needed."
        raise ConsoleError(409, "too_many_budgets", message)
    return Answer(BUDGET.describe(budgets.create(account.name, name, allowance)), 201)


@route("PATCH", "/budgets/{id}", "any")
def edit_budget(books: Books, request: ConsoleRequest) -> Answer:
    changes = BudgetChanges()
    with request.fields as fields:
        if fields.has("name"):
            changes["name"] = fields.need_text("name").strip()
        if allowance := _read_allowance(fields):
            changes["allowance"] = allowance
    budget_id, owner = _find_budget(request)
    if not changes:
        return Answer(BUDGET.describe(SharedBudgets(books).read(budget_id, account_id=owner)))
    return Answer(BUDGET.describe(SharedBudgets(books).edit(budget_id, changes, account_id=owner)))


@route("DELETE", "/budgets/{id}", "any")
def end_budget(books: Books, request: ConsoleRequest) -> Answer:
    budget_id, owner = _find_budget(request)
    SharedBudgets(books).end(budget_id, account_id=owner)
    return Answer(status=204)


def _read_allowance(fields: Fields, prefix: str = "") -> Allowance | None:
    """Read an amount and its period; None if the request has neither of the two."""
    amount, period = f"{prefix}amount", f"{prefix}period"
    if not fields.has(amount) and not fields.has(period):
        return None
    amount_nano = fields.need_amount_nano(amount)
    if amount_nano <= 0:
        raise invalid_field(amount, f"'{amount}' must be above 0.")
    return Allowance(amount_nano, fields.need_choice(period, get_args(Period)))


def _find_budget(request: ConsoleRequest) -> tuple[int, int | None]:
    """Return the ids of the budget and of the account that must own it, which is None for operators."""
    account = request.account
    return read_id(request.segment(), "budget"), None if account.operator else account.id
