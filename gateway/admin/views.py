"""The fields of accounts, keys, entries and audits; `fields` tells how to use them."""

from __future__ import annotations

from operator import attrgetter
from typing import Final

from gateway.admin.fields import Fields
from gateway.base.money import format_amount
from gateway.base.times import format_moment, unix_ms
from gateway.ledger import records
from gateway.ledger.budget_records import BudgetStanding
from gateway.ledger.key_records import LIMITS, KeyView, Terms


def describe_limits(terms: Terms) -> str:
    """Describe the limits of a key or an account; "-" are the defaults of gateway.toml."""
    limits = zip(attrgetter(*LIMITS)(terms), ("requests/min", "tokens/min", "at once"), strict=True)
    said = [f"{limit or 'unlimited'} {unit}" for limit, unit in limits if limit is not None]
    return ", ".join(said) or "-"


def describe_models(terms: Terms) -> str:
    return "all" if terms.models is None else ", ".join(sorted(terms.models))


_TERMS: Final = Fields[Terms](
    ("models", lambda terms: None if terms.models is None else sorted(terms.models)), *LIMITS
)


# ---- accounts and their entries ------------------------------------------------------------------


def describe_account_state(account: records.AccountView) -> str:
    state = "suspended" if account.suspended else "active"
    return f"{state}, operator" if account.operator else state


ACCOUNT: Final = Fields[records.AccountView](
    *("id", "name", "operator", "suspended", "balance_nano", "held_nano", "created_ms"),
    *_TERMS.under(attrgetter("terms")).members,
    table=(
        *("name", "balance_nano", "held_nano"),
        ("STATE", describe_account_state),
        ("LIMITS", lambda account: describe_limits(account.terms)),
        "created_ms",
    ),
)


ENTRY: Final = Fields[records.EntryView](
    *("id", "account", "kind", "amount_nano", "balance_after_nano", "request_id", "note"),
    "created_ms",
    table=(
        ("WHEN UTC", "created_ms"),
        *("kind", "amount_nano"),
        (">BALANCE {}", "balance_after_nano"),
        ("NOTE", lambda entry: " ".join(filter(None, (entry.request_id, entry.note)))),
    ),
)


# ---- keys and budgets ----------------------------------------------------------------------------


def describe_status(status: str, expires_ms: int | None, **ended_ms: int | None) -> str:
    """Describe whether something works, and since or until when; `ended_ms` are times by status."""
    at_ms = expires_ms if status == "expired" else ended_ms.get(status)
    if at_ms is not None:
        return f"{status} {format_moment(at_ms)}"
    if expires_ms is None or status == "cap_spent":
        return status.replace("_", " ")
    return f"until {format_moment(expires_ms)}"


def describe_key_state(key: KeyView) -> str:
    return describe_status(key.status(unix_ms()), key.terms.expires_ms, revoked=key.revoked_ms)


def _describe_key_budget(key: KeyView) -> str:
    budget = key.budget
    if budget is None:
        return "-"
    name = "" if budget.name is None else f", {budget.name}"
    spent, amount = format_amount(budget.spent_nano), format_amount(budget.amount_nano)
    return f"{spent} of {amount} a {budget.period}{name}"


STANDING: Final = Fields[BudgetStanding](
    *("id", "name", "period", "amount_nano", "spent_nano", "remaining_nano", "resets_ms")
)
KEY: Final = Fields[KeyView](
    *("id", "account", "terms.name", "display"),
    *_TERMS.under(attrgetter("terms")).members,
    *("terms.cap_nano", "spent_nano", "created_ms", "terms.expires_ms", "revoked_ms"),
    *("last_used_ms", "replaced_by"),
    ("budget", lambda key: None if key.budget is None else STANDING.describe(key.budget)),
    table=(
        *("id", "account", "terms.name"),
        ("KEY", "display"),
        ("STATE", describe_key_state),
        *("last_used_ms", "spent_nano", "terms.cap_nano"),
        (">BUDGET {}", _describe_key_budget),
        ("LIMITS", lambda key: describe_limits(key.terms)),
        ("MODELS", lambda key: describe_models(key.terms)),
    ),
)
"""A key without its secret."""


LATEST_ENTRIES: Final = 10
"""Entries that are shown with an account, so that they fit on a screen."""


# ---- audits --------------------------------------------------------------------------------------


INTERRUPTED: Final = Fields[records.InterruptedView](
    ("id", "request_id"),
    *("account", "model", "provider", "hold_nano", "started_ms"),
    table=(
        ("INTERRUPTED", "id"),
        *("account", "model", "provider"),
        (">HELD {}", "hold_nano"),
        "started_ms",
    ),
)
AUDIT: Final = Fields[records.AuditReport](
    *("ok", "accounts", "entries", "pending", "interrupted", "unsettled"),
    ("to_settle", lambda report: [INTERRUPTED.describe(one) for one in report.to_settle]),
    ("problems", lambda report: list(report.problems)),
)
