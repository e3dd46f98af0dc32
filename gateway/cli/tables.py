"""Render accounts, keys, entries and usage as tables for people, and usage as CSV."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from gateway import ledger
from gateway.admin import csv_text, views
from gateway.cli.output import Column, render_fields, render_table
from gateway.money import format_amount
from gateway.times import format_moment, unix_ms

Row = TypeVar("Row")
Columns = tuple[tuple[str, Callable[[Row], str]], ...]
"""The title and the cell of each column. `{}` in a title is the currency of a column of amounts."""


def render(columns: Columns[Row], rows: Sequence[Row], currency: str) -> str:
    """Render rows as a table; amounts are aligned to the right."""
    return render_table(
        [Column(title.format(currency), right="{}" in title) for title, _ in columns],
        [[cell(row) for _, cell in columns] for row in rows],
    )


def state_of_account(account: ledger.AccountView) -> str:
    state = "suspended" if account.suspended else "active"
    return f"{state}, operator" if account.operator else state


def state_of_key(key: ledger.KeyView) -> str:
    """Describe whether a key works, and since or until when."""
    match key.status(unix_ms()):
        case "revoked":
            return f"revoked {format_moment(key.revoked_ms or 0)}"
        case "expired":
            return f"expired {format_moment(key.terms.expires_ms or 0)}"
        case "cap_spent":
            return "cap spent"
        case "active":
            expires_ms = key.terms.expires_ms
            return "active" if expires_ms is None else f"until {format_moment(expires_ms)}"


def state_of_code(code: ledger.CodeView) -> str:
    """Describe what became of a code, or until when it can be redeemed."""
    status = code.status(unix_ms())
    if status == "open":
        return f"until {format_moment(code.expires_ms)}" if code.expires_ms else "open"
    ended_ms = {"redeemed": code.redeemed_ms, "void": code.voided_ms, "expired": code.expires_ms}
    return f"{status} {format_moment(ended_ms[status] or 0)}"


def limits_of(terms: ledger.Terms) -> str:
    """Describe the limits of a key or an account; "-" are the defaults of gateway.toml."""
    limits = (
        (terms.requests_per_minute, "requests/min"),
        (terms.tokens_per_minute, "tokens/min"),
        (terms.concurrency, "at once"),
    )
    return (
        ", ".join(f"{limit or 'unlimited'} {unit}" for limit, unit in limits if limit is not None)
        or "-"
    )


def models_of(terms: ledger.Terms) -> str:
    return "all" if terms.models is None else ", ".join(sorted(terms.models))


def _cap_of_key(key: ledger.KeyView) -> str:
    return "-" if key.terms.cap_nano is None else format_amount(key.terms.cap_nano)


ACCOUNTS: Final[Columns[ledger.AccountView]] = (
    ("NAME", lambda account: account.name),
    ("BALANCE {}", lambda account: format_amount(account.balance_nano)),
    ("HELD {}", lambda account: format_amount(account.held_nano)),
    ("STATE", state_of_account),
    ("LIMITS", lambda account: limits_of(account.terms)),
    ("CREATED UTC", lambda account: format_moment(account.created_ms)),
)
KEYS: Final[Columns[ledger.KeyView]] = (
    ("ID", lambda key: key.id),
    ("ACCOUNT", lambda key: key.account),
    ("NAME", lambda key: key.terms.name or "-"),
    ("KEY", lambda key: key.display),
    ("STATE", state_of_key),
    ("SPENT {}", lambda key: format_amount(key.spent_nano)),
    ("CAP {}", _cap_of_key),
    ("LIMITS", lambda key: limits_of(key.terms)),
    ("MODELS", lambda key: models_of(key.terms)),
)
ENTRIES: Final[Columns[ledger.EntryView]] = (
    ("WHEN UTC", lambda entry: format_moment(entry.created_ms)),
    ("KIND", lambda entry: entry.kind),
    ("AMOUNT {}", lambda entry: format_amount(entry.amount_nano)),
    ("BALANCE {}", lambda entry: format_amount(entry.balance_after_nano)),
    ("NOTE", lambda entry: " ".join(part for part in (entry.request_id, entry.note) if part)),
)
CODES: Final[Columns[ledger.CodeView]] = (
    ("ID", lambda code: code.id),
    ("BATCH", lambda code: code.batch),
    ("CODE", lambda code: code.display),
    ("AMOUNT {}", lambda code: format_amount(code.amount_nano)),
    ("STATE", state_of_code),
    ("BY", lambda code: code.redeemed_by or "-"),
    ("NOTE", lambda code: code.note or "-"),
)
INTERRUPTED: Final[Columns[ledger.InterruptedView]] = (
    ("INTERRUPTED", lambda request: request.request_id),
    ("ACCOUNT", lambda request: request.account),
    ("MODEL", lambda request: request.model),
    ("PROVIDER", lambda request: request.provider),
    ("HELD {}", lambda request: format_amount(request.hold_nano)),
    ("STARTED UTC", lambda request: format_moment(request.started_ms)),
)


def table_usage(rows: Sequence[tuple[str, ledger.Usage]], by: str, currency: str) -> str:
    """Render usage by group, with a total if there are several groups."""
    titles = ("REQUESTS", "INPUT", "CACHED", "CACHE WRITE", "OUTPUT", f"COST {currency}")
    columns = (
        Column(by.upper() if by != "day" else "DAY UTC"),
        *(Column(title, right=True) for title in titles),
    )
    if len(rows) > 1:
        rows = [*rows, ("total", ledger.sum_usage(usage for _, usage in rows))]
    return render_table(
        columns,
        [(group, *map(str, usage[:-1]), format_amount(usage.cost_nano)) for group, usage in rows],
    )


def csv_usage(rows: Sequence[tuple[str, ledger.Usage]], by: str) -> str:
    return csv_text.render_csv(
        (by, *views.describe_usage(ledger.Usage())),
        [(group, *map(str, views.describe_usage(usage).values())) for group, usage in rows],
    )


def page_account(detail: ledger.AccountDetail, currency: str) -> str:
    """Render an account with its keys and latest entries."""
    account = detail.account
    fields = (
        ("account", account.name),
        ("balance", f"{format_amount(account.balance_nano)} {currency}"),
        ("held", f"{format_amount(account.held_nano)} {currency}"),
        ("available", f"{format_amount(account.balance_nano - account.held_nano)} {currency}"),
        ("state", state_of_account(account)),
        ("limits", limits_of(account.terms)),
        ("models", models_of(account.terms)),
        ("created", f"{format_moment(account.created_ms)} UTC"),
    )
    parts = [render_fields(fields)]
    if detail.keys:
        parts.append("Keys\n" + render(KEYS, detail.keys, currency))
    if detail.entries:
        parts.append("Latest entries\n" + render(ENTRIES, detail.entries, currency))
    return "\n\n".join(parts)
