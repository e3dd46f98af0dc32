"""The verbs of accounts that check their input: balances, limits, suspension, usage and backups.

Each verb then makes one call to the books. Verbs without input to check are called on the books
directly. Refusals are texts for people; amounts are integer nano-units.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Final

from gateway.admin.fields import (
    MAX_IDEMPOTENCY_KEY_CHARS,
    MAX_NAME_CHARS,
    MAX_NOTE_CHARS,
    name_once,
    require_amount,
    require_terms,
    require_text,
)
from gateway.ledger import opening
from gateway.ledger.call_records import ProviderCosts, Usage, UsageGroup
from gateway.ledger.key_records import Allowance, BudgetChanges, BudgetView, TermChanges, Terms
from gateway.ledger.records import (
    AccountDetail,
    AccountView,
    Conflict,
    DatabaseUrl,
    EntryView,
    LedgerMissing,
    Location,
    NotFound,
    Refused,
)
from gateway.ledger.signin_records import SCRIPT_ACTOR
from gateway.ledger.sql.books.books import Books

LATEST_ENTRIES: Final = 10
"""Entries that `account show` lists, so that they fit on a screen."""
NO_TERMS: Final = Terms()


def open_books(location: Location, *, create: bool = False) -> Books:
    """Open the operator's books, as a context manager.

    Raises:
        NotFound: there is no such ledger, and `create` is False.
        LedgerError: it is no ledger, or of a newer version, or a gateway serves from a lost one.
    """
    try:
        return opening.open_books(location, create=create)
    except LedgerMissing as error:
        what = "ledger in" if isinstance(location, DatabaseUrl) else "database at"
        raise NotFound(
            f"there is no {what} {location}; 'serve' or 'account add' makes one"
        ) from error


def add_account(
    books: Books,
    name: str,
    *,
    credit_nano: int = 0,
    operator: bool = False,
    note: str = "",
    terms: Terms = NO_TERMS,
) -> AccountView:
    """Create an account; `note` is the reason for its credit."""
    require_text("the account's name", name, MAX_NAME_CHARS, "name")
    if name.startswith(SCRIPT_ACTOR):
        raise Refused(
            f"an account's name must not begin with '{SCRIPT_ACTOR}': events name tokens so",
            field="name",
        )
    if credit_nano:
        _require_credit(credit_nano, "credit")
    if note:
        require_text("the note", note, MAX_NOTE_CHARS, "note")
    if terms.models is not None:
        terms = replace(terms, models=name_once(terms.models))
    require_terms(terms)
    return books.accounts.create(
        name, credit_nano=credit_nano, operator=operator, note=note, terms=terms
    )


def edit_account(
    books: Books, name: str, changes: TermChanges, *, operator: bool | None = None
) -> AccountView:
    """Change what the account may use with all its keys together, or whether it is an operator's."""
    if not changes and operator is None:
        raise Refused("nothing to change; give a limit, models or a role")
    terms = replace(NO_TERMS, **changes)
    require_terms(terms)
    if terms.models is not None:
        changes = {**changes, "models": name_once(terms.models)}
    return books.accounts.edit(name, changes, operator=operator)


def show_account(books: Books, name: str) -> AccountDetail:
    return AccountDetail(
        account=books.accounts.read(name),
        keys=tuple(books.keys.read_all(name)),
        entries=tuple(books.entries.read_latest(name, LATEST_ENTRIES)),
    )


def credit(
    books: Books,
    name: str,
    amount_nano: int,
    *,
    note: str = "",
    idempotency_key: str | None = None,
) -> EntryView:
    """Add to the balance. With an idempotency key, repeated calls return the first one's entry."""
    _require_credit(amount_nano)
    if note:
        require_text("the note", note, MAX_NOTE_CHARS, "note")
    if idempotency_key is not None:
        require_text("the idempotency key", idempotency_key, MAX_IDEMPOTENCY_KEY_CHARS)
    return books.entries.post(
        name, "credit", amount_nano, note=note, idempotency_key=idempotency_key
    )


def correct(
    books: Books,
    name: str,
    amount_nano: int,
    *,
    note: str,
    request_id: str | None = None,
    idempotency_key: str | None = None,
) -> EntryView:
    """Add to or take from the balance, for a reason, and for a request if one is named.

    An amount of 0 settles an interrupted request for which nothing is owed. With an idempotency
    key, repeated calls return the first one's entry.
    """
    require_text("the note of a correction", note, MAX_NOTE_CHARS, "note")
    require_amount(amount_nano)
    if amount_nano == 0 and request_id is None:
        raise Refused(
            "a correction of 0 corrects nothing, unless it names a request", field="amount"
        )
    if idempotency_key is not None:
        require_text("the idempotency key", idempotency_key, MAX_IDEMPOTENCY_KEY_CHARS)
    return books.entries.post(
        name,
        "correction",
        amount_nano,
        note=note,
        idempotency_key=idempotency_key,
        request_id=request_id,
    )


def suspend(books: Books, name: str, *, reason: str = "") -> AccountView:
    if reason:
        require_text("the reason", reason, MAX_NOTE_CHARS, "reason")
    return books.accounts.suspend(name, reason=reason)


def usage_with_costs(
    books: Books,
    *,
    account: str | None = None,
    by: UsageGroup = "day",
    since_ms: int | None = None,
    until_ms: int | None = None,
) -> list[tuple[str, Usage, ProviderCosts]]:
    """Sum what was charged for requests that ended in [since, until); days are UTC.

    With it comes what providers bill for them, which only operators may see.
    """
    if since_ms is not None and until_ms is not None and since_ms >= until_ms:
        raise Refused("the period ends before it begins; change its start or its end")
    with books.snapshot():  # so that both sums are of the same requests
        rows = books.usage.sum_by(by, account=account, since_ms=since_ms, until_ms=until_ms)
        costs = books.usage.sum_costs(by, account=account, since_ms=since_ms, until_ms=until_ms)
    return [(group, sums, costs.get(group, ProviderCosts())) for group, sums in rows]


def back_up(books: Books, target: Path) -> int:
    """Write a copy of the whole ledger to a new file; return its size in bytes."""
    if os.path.lexists(target):
        raise Conflict(f"{target} exists already; a backup overwrites nothing")
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}")
    return books.back_up(target)


def _require_credit(amount_nano: int, field: str = "amount") -> None:
    require_amount(amount_nano, field)
    if amount_nano <= 0:
        raise Refused(
            "a credit must be above 0; use a correction to take from a balance", field=field
        )


def add_budget(books: Books, account: str, name: str, allowance: Allowance) -> BudgetView:
    """Create a budget that several keys of the account can share."""
    _require_name(name)
    require_allowance(allowance)
    return books.budgets.create(account, name, allowance)


def edit_budget(
    books: Books, budget_id: int, changes: BudgetChanges, *, account_id: int | None = None
) -> BudgetView:
    """Change name or allowance; in force at the next request."""
    if not changes:
        raise Refused("nothing to change; give an amount with its period, or a name")
    if "name" in changes:
        _require_name(changes["name"])
    if "allowance" in changes:
        require_allowance(changes["allowance"])
    return books.budgets.edit(budget_id, changes, account_id=account_id)


def find_budget(books: Books, word: str, account: str | None = None) -> BudgetView:
    """Find a budget by its id or its name."""
    found = [one for one in books.budgets.read_all(account) if word in (str(one.id), one.name)]
    if not found:
        raise NotFound(f"there is no budget '{word}'; `budget list` lists them", field="budget_id")
    if len(found) > 1:
        ids = ", ".join(f"{one.id} of '{one.account}'" for one in found)
        raise Refused(f"several accounts have a budget '{word}'; give its id: {ids}")
    return found[0]


def require_allowance(allowance: Allowance, field: str = "amount") -> None:
    require_amount(allowance.amount_nano, field)
    if allowance.amount_nano <= 0:
        raise Refused("the budget's amount must be above 0", field=field)


def _require_name(name: str) -> None:
    """Require a name that a command cannot take for an id, for an amount, or for `none`."""
    require_text("the budget's name", name, MAX_NAME_CHARS, "name")
    if "/" in name or name == "none" or not any(letter.isalpha() for letter in name):
        raise Refused(
            "the budget's name must have a letter and no '/', and must not be 'none'", field="name"
        )
