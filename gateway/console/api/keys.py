"""The signed-in account's keys; operators add and revoke any account's. Only the reply that creates a key contains the key itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, cast

import orjson

from gateway.admin import keys
from gateway.console.api.budgets import read_allowance
from gateway.console.fields import read_id
from gateway.console.idempotency import idempotent
from gateway.console.pages import SPENT_DAYS, describe_listed_key
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import ConsoleError, invalid_field
from gateway.console.state import SHOPS, Answer, ConsoleRequest, Route, in_books_thread
from gateway.ledger.key_records import (
    LIMITS,
    Allowance,
    KeyChanges,
    KeyTerms,
    KeyView,
    NewKey,
    TermChanges,
)
from gateway.ledger.records import MAX_INTEGER
from gateway.ledger.sql.books.books import Books
from gateway.times import DAY_MS

MAX_LIVE_KEYS: Final = 1000
"""Live keys an account can create here, as all are in the server's memory. The CLI has no limit."""


def list_keys(books: Books, request: ConsoleRequest) -> Answer:
    """List keys, the newest first. `live` are those not ended, even if their cap is spent."""
    is_live = request.query.choice("status", ("live", "all"), "live") == "live"
    page = read_page(request.query, (int, str))
    count, found = books.keys.read_page(
        request.account.id,
        live_at_ms=books.clock() if is_live else None,
        after=page.after,
        limit=page.wanted,
    )
    listing: Listing[KeyView] = Listing(
        "keys", lambda key: (key.created_ms, key.id), _describer(books, request.account.id)
    )
    return listing.answer(request.http, page, found, {"count": count})


def show_key(books: Books, request: ConsoleRequest) -> Answer:
    key = books.keys.read(request.segment("id"), account_id=request.account.id)
    return Answer(_describer(books, request.account.id)(key))


def add_key(books: Books, request: ConsoleRequest) -> Answer:
    return _add_key(books, request, request.account.id)


def add_account_key(books: Books, request: ConsoleRequest) -> Answer:
    """Add a key to any account, as shops do for their customers."""
    account_id = read_id(request.segment("id"), "account")
    request.refuse_operators(books.accounts.read(books.accounts.find_name(account_id)))
    return _add_key(books, request, account_id)


def refuse_again(answer: Answer) -> Answer:
    """Refuse to show a key again; the error names it, so that it can be revoked."""
    assert isinstance(answer.body, bytes)
    key_id = orjson.loads(answer.body)["key"]
    raise ConsoleError(
        409,
        "already_done",
        f"This key was made already, as {key_id}, and cannot be shown again. If it is lost, revoke"
        " it and make another one.",
        more={"key": key_id},
    )


def _add_key(books: Books, request: ConsoleRequest, account_id: int) -> Answer:
    name = books.accounts.find_name(account_id)
    changes, own = _read_changes(request)
    live, _ = books.keys.read_page(account_id, live_at_ms=books.clock(), after=None, limit=1)
    if live >= MAX_LIVE_KEYS:
        message = (
            f"The account has {MAX_LIVE_KEYS:,} live keys already. Revoke those it does not need."
        )
        raise ConsoleError(409, "too_many_keys", message)
    made = keys.add_key(books, name, KeyTerms(**changes), own=own)
    body = _describe_new(books, account_id, made)
    return Answer(body, 201, kept={"key": made.key.id})


def edit_key(books: Books, request: ConsoleRequest) -> Answer:
    changes, own = _read_changes(request)
    key_id, owner = request.segment("id"), request.account.id
    if not changes and own is None:
        return show_key(books, request)
    key = keys.edit_key(books, key_id, changes, own=own, account_id=owner)
    return Answer(_describer(books, request.account.id)(key))


def rotate_key(books: Books, request: ConsoleRequest) -> Answer:
    fields = request.fields
    grace_seconds = fields.need_integer("grace_seconds", 0, keys.MAX_GRACE_SECONDS)
    fields.done()
    key_id, owner = request.segment("id"), request.account.id
    made = keys.rotate_key(books, key_id, grace_seconds=grace_seconds, account_id=owner)
    old = books.keys.read(key_id, account_id=owner)
    body = _describe_new(books, owner, made)
    return Answer({**body, "old": _describer(books, request.account.id)(old)}, 201)


def revoke_key(books: Books, request: ConsoleRequest) -> Answer:
    """Revoke a key. Holders revoke their own keys; operators and tokens revoke any key."""
    request.fields.done()
    is_any = request.token is not None or request.account.operator
    owner = None if is_any else request.account.id
    key = books.keys.read(request.segment("id"), account_id=owner)
    request.refuse_operators(books.accounts.read(key.account))
    key = books.keys.revoke(request.segment("id"), account_id=owner)
    return Answer(_describer(books, books.accounts.find_id(key.account))(key))


def _read_changes(request: ConsoleRequest) -> tuple[KeyChanges, Allowance | None]:
    """Read the changes, and the key's own budget; a field that is named with null clears its value."""
    fields = request.fields
    changes = cast(KeyChanges, fields.terms())  # which may get further names
    _require_narrower(changes, request)
    if fields.has("name"):
        changes["name"] = (fields.text("name") or "").strip()
    if fields.has("cap"):
        changes["cap_nano"] = fields.amount_nano("cap")
    if fields.has("expires"):
        changes["expires_ms"] = fields.moment_ms("expires")
    own = read_allowance(fields, "budget_")
    if fields.has("budget_id"):
        if own is not None:
            raise invalid_field(
                "budget_id", "Give 'budget_id' or an amount and a period, not both."
            )
        changes["budget_id"] = fields.integer("budget_id", 1, MAX_INTEGER)
    fields.done()
    return changes, own


def _require_narrower(changes: TermChanges, request: ConsoleRequest) -> None:
    """Holders narrow their keys: only operators lift the limits that hold for keys by default."""
    if request.token is not None or request.account.operator:
        return
    for name in LIMITS:
        limit, most = changes.get(name), getattr(request.gateway.config.limits, name)
        if most and limit is not None and not 1 <= limit <= most:
            message = f"'{name}' must be a whole number from 1 to {most}, the limit of other keys."
            raise invalid_field(name, message)


def _describe_new(books: Books, account_id: int, made: NewKey) -> dict[str, object]:
    return {"key": _describer(books, account_id)(made.key), "secret": made.secret}


def _describer(books: Books, account_id: int) -> Callable[[KeyView], dict[str, object]]:
    now_ms = books.clock()
    today = now_ms // DAY_MS
    spent = books.usage.sum_by_key(account_id, today - SPENT_DAYS + 1, today)
    return lambda key: describe_listed_key(key, now_ms, spent)


ROUTES: Final = (
    Route("GET", "/console/api/keys", "any", in_books_thread(list_keys)),
    Route("POST", "/console/api/keys", "any", in_books_thread(add_key)),
    Route("GET", "/console/api/keys/{id}", "any", in_books_thread(show_key)),
    Route("PATCH", "/console/api/keys/{id}", "any", in_books_thread(edit_key)),
    Route("POST", "/console/api/keys/{id}/rotate", "any", in_books_thread(rotate_key)),
    Route("POST", "/console/api/keys/{id}/revoke", "any", in_books_thread(revoke_key), SHOPS),
    Route(
        "POST",
        "/console/api/accounts/{id}/keys",
        "operator",
        idempotent(add_account_key, refuse_again),
        SHOPS,
    ),
)
