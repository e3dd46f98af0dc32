"""The keys of whoever is signed in. A key itself is in the reply that makes it, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway import accounts
from gateway.console.fields import Fields
from gateway.console.paging import Listing, read_page
from gateway.console.refusals import ConsoleError
from gateway.console.state import Answer, Route, Visit, on_desk
from gateway.console.views import SPENT_DAYS, describe_listed_key
from gateway.ledger.books import Books
from gateway.ledger.records import KeyChanges, KeyView, NewKey
from gateway.times import DAY_MS

MAX_LIVE_KEYS: Final = 1000
"""Of one account, made here: all of them are in the server's memory. The CLI may make more."""


def list_keys(books: Books, visit: Visit) -> Answer:
    """The newest first; `live` are those that have not ended, be their cap spent or not."""
    is_live = visit.query.choice("status", ("live", "all"), "live") == "live"
    page = read_page(visit.query, (int, str))
    count, found = books.keys_page(
        visit.account.id,
        live_at_ms=books.clock() if is_live else None,
        after=page.after,
        limit=page.wanted,
    )
    listing: Listing[KeyView] = Listing(
        "keys", lambda key: (key.created_ms, key.id), _describer(books, visit)
    )
    return listing.answer(visit.request, page, found, {"count": count})


def show_key(books: Books, visit: Visit) -> Answer:
    key = books.key(visit.segment("id"), account_id=visit.account.id)
    return Answer(_describer(books, visit)(key))


def add_key(books: Books, visit: Visit) -> Answer:
    changes = _read_changes(visit.fields)
    live, _ = books.keys_page(visit.account.id, live_at_ms=books.clock(), after=None, limit=1)
    if live >= MAX_LIVE_KEYS:
        message = f"There are {MAX_LIVE_KEYS:,} keys that work. Revoke those that nobody needs."
        raise ConsoleError(409, "too_many_keys", message)
    made = accounts.add_key(books, visit.account.name, **changes)
    return Answer(_describe_new(books, visit, made), 201)


def edit_key(books: Books, visit: Visit) -> Answer:
    changes = _read_changes(visit.fields)
    key_id, owner = visit.segment("id"), visit.account.id
    if not changes:
        return show_key(books, visit)
    key = accounts.edit_key(books, key_id, changes, account_id=owner)
    return Answer(_describer(books, visit)(key))


def rotate_key(books: Books, visit: Visit) -> Answer:
    fields = visit.fields
    grace_seconds = fields.need_integer("grace_seconds", 0, accounts.MAX_GRACE_SECONDS)
    fields.done()
    key_id, owner = visit.segment("id"), visit.account.id
    made = accounts.rotate_key(books, key_id, grace_seconds=grace_seconds, account_id=owner)
    old = books.key(key_id, account_id=owner)
    body = _describe_new(books, visit, made)
    return Answer({**body, "old": _describer(books, visit)(old)}, 201)


def revoke_key(books: Books, visit: Visit) -> Answer:
    """The own one; an operator's word ends anybody's."""
    visit.fields.done()
    owner = None if visit.account.operator else visit.account.id
    key = accounts.revoke_key(books, visit.segment("id"), account_id=owner)
    return Answer(_describer(books, visit)(key))


def _read_changes(fields: Fields) -> KeyChanges:
    """What was named, be it to clear it."""
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


def _describe_new(books: Books, visit: Visit, made: NewKey) -> dict[str, object]:
    return {"key": _describer(books, visit)(made.key), "secret": made.secret}


def _describer(books: Books, visit: Visit) -> Callable[[KeyView], dict[str, object]]:
    now_ms = books.clock()
    today = now_ms // DAY_MS
    spent = books.spent_by_key(visit.account.id, today - SPENT_DAYS + 1, today)
    return lambda key: describe_listed_key(key, now_ms, spent)


ROUTES: Final = (
    Route("GET", "/console/api/keys", "any", on_desk(list_keys)),
    Route("POST", "/console/api/keys", "any", on_desk(add_key)),
    Route("GET", "/console/api/keys/{id}", "any", on_desk(show_key)),
    Route("PATCH", "/console/api/keys/{id}", "any", on_desk(edit_key)),
    Route("POST", "/console/api/keys/{id}/rotate", "any", on_desk(rotate_key)),
    Route("POST", "/console/api/keys/{id}/revoke", "any", on_desk(revoke_key)),
)
