"""The signed-in account's keys. Only the reply that creates a key contains the key itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.admin import keys
from gateway.console.fields import Fields
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import ConsoleError
from gateway.console.state import Answer, ConsoleRequest, Route, in_books_thread
from gateway.console.views import SPENT_DAYS, describe_listed_key
from gateway.ledger import Books, KeyChanges, KeyTerms, KeyView, NewKey
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
        "keys", lambda key: (key.created_ms, key.id), _describer(books, request)
    )
    return listing.answer(request.http, page, found, {"count": count})


def show_key(books: Books, request: ConsoleRequest) -> Answer:
    key = books.keys.read(request.segment("id"), account_id=request.account.id)
    return Answer(_describer(books, request)(key))


def add_key(books: Books, request: ConsoleRequest) -> Answer:
    changes = _read_changes(request.fields)
    live, _ = books.keys.read_page(
        request.account.id, live_at_ms=books.clock(), after=None, limit=1
    )
    if live >= MAX_LIVE_KEYS:
        message = f"You have {MAX_LIVE_KEYS:,} live keys already. Revoke those you do not need."
        raise ConsoleError(409, "too_many_keys", message)
    made = keys.add_key(books, request.account.name, KeyTerms(**changes))
    return Answer(_describe_new(books, request, made), 201)


def edit_key(books: Books, request: ConsoleRequest) -> Answer:
    changes = _read_changes(request.fields)
    key_id, owner = request.segment("id"), request.account.id
    if not changes:
        return show_key(books, request)
    key = keys.edit_key(books, key_id, changes, account_id=owner)
    return Answer(_describer(books, request)(key))


def rotate_key(books: Books, request: ConsoleRequest) -> Answer:
    fields = request.fields
    grace_seconds = fields.need_integer("grace_seconds", 0, keys.MAX_GRACE_SECONDS)
    fields.done()
    key_id, owner = request.segment("id"), request.account.id
    made = keys.rotate_key(books, key_id, grace_seconds=grace_seconds, account_id=owner)
    old = books.keys.read(key_id, account_id=owner)
    body = _describe_new(books, request, made)
    return Answer({**body, "old": _describer(books, request)(old)}, 201)


def revoke_key(books: Books, request: ConsoleRequest) -> Answer:
    """Revoke a key. Holders revoke their own keys; operators revoke any key."""
    request.fields.done()
    owner = None if request.account.operator else request.account.id
    key = books.keys.revoke(request.segment("id"), account_id=owner)
    return Answer(_describer(books, request)(key))


def _read_changes(fields: Fields) -> KeyChanges:
    """Read the changes; a field that is named with null clears its value."""
    changes: KeyChanges = {}
    if fields.has("name"):
        changes["name"] = (fields.text("name") or "").strip()
    if fields.has("cap"):
        changes["cap_nano"] = fields.amount_nano("cap")
    if fields.has("expires"):
        changes["expires_ms"] = fields.moment_ms("expires")
    if fields.has("models"):
        changes["models"] = fields.texts("models")
    fields.done()
    return changes


def _describe_new(books: Books, request: ConsoleRequest, made: NewKey) -> dict[str, object]:
    return {"key": _describer(books, request)(made.key), "secret": made.secret}


def _describer(books: Books, request: ConsoleRequest) -> Callable[[KeyView], dict[str, object]]:
    now_ms = books.clock()
    today = now_ms // DAY_MS
    spent = books.usage.sum_by_key(request.account.id, today - SPENT_DAYS + 1, today)
    return lambda key: describe_listed_key(key, now_ms, spent)


ROUTES: Final = (
    Route("GET", "/console/api/keys", "any", in_books_thread(list_keys)),
    Route("POST", "/console/api/keys", "any", in_books_thread(add_key)),
    Route("GET", "/console/api/keys/{id}", "any", in_books_thread(show_key)),
    Route("PATCH", "/console/api/keys/{id}", "any", in_books_thread(edit_key)),
    Route("POST", "/console/api/keys/{id}/rotate", "any", in_books_thread(rotate_key)),
    Route("POST", "/console/api/keys/{id}/revoke", "any", in_books_thread(revoke_key)),
)
