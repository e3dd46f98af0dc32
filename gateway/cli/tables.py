"""Render accounts, keys, entries, events and usage as tables for people, and usage as CSV."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeVar

from gateway import ledger
from gateway.admin import csv_text, views
from gateway.cli.output import Column, render_fields, render_table
from gateway.money import align_points, format_amount
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


def state_of_token(token: ledger.TokenView) -> str:
    """Describe whether a token works, and since or until when."""
    expires_ms = token.terms.expires_ms
    match token.status(unix_ms()):
        case "revoked":
            return f"revoked {format_moment(token.revoked_ms or 0)}"
        case "expired":
            return f"expired {format_moment(expires_ms or 0)}"
        case "active":
            return "active" if expires_ms is None else f"until {format_moment(expires_ms)}"


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


def _budget_of_key(key: ledger.KeyView) -> str:
    budget = key.budget
    if budget is None:
        return "-"
    name = "" if budget.name is None else f", {budget.name}"
    spent, amount = format_amount(budget.spent_nano), format_amount(budget.amount_nano)
    return f"{spent} of {amount} a {budget.period}{name}"


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
    ("BUDGET {}", _budget_of_key),
    ("LIMITS", lambda key: limits_of(key.terms)),
    ("MODELS", lambda key: models_of(key.terms)),
)
BUDGETS: Final[Columns[ledger.BudgetView]] = (
    ("ID", lambda budget: str(budget.id)),
    ("ACCOUNT", lambda budget: budget.account),
    ("NAME", lambda budget: budget.name or "-"),
    ("AMOUNT {}", lambda budget: format_amount(budget.amount_nano)),
    ("PER", lambda budget: budget.period),
    ("SPENT {}", lambda budget: format_amount(budget.spent_nano)),
    ("REMAINING {}", lambda budget: format_amount(budget.remaining_nano)),
    ("RESETS UTC", lambda budget: format_moment(budget.resets_ms)),
    ("KEYS", lambda budget: str(budget.keys)),
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
TOKENS: Final[Columns[ledger.TokenView]] = (
    ("ID", lambda token: token.id),
    ("NAME", lambda token: token.terms.name),
    ("ROLE", lambda token: token.terms.role),
    ("TOKEN", lambda token: token.display),
    ("STATE", state_of_token),
    (
        "LAST USED UTC",
        lambda token: format_moment(token.last_used_ms) if token.last_used_ms else "-",
    ),
    ("BY", lambda token: token.created_by),
)
EVENTS: Final[Columns[ledger.EventView]] = (
    ("WHEN UTC", lambda event: format_moment(event.at_ms)),
    ("WHO", lambda event: event.actor),
    ("WHAT", lambda event: event.action),
    ("ACCOUNT", lambda event: event.account or "-"),
    ("TARGET", lambda event: event.target or "-"),
    ("FROM", lambda event: event.address or "-"),
    ("DETAIL", lambda event: event.detail),
)
INTERRUPTED: Final[Columns[ledger.InterruptedView]] = (
    ("INTERRUPTED", lambda request: request.request_id),
    ("ACCOUNT", lambda request: request.account),
    ("MODEL", lambda request: request.model),
    ("PROVIDER", lambda request: request.provider),
    ("HELD {}", lambda request: format_amount(request.hold_nano)),
    ("STARTED UTC", lambda request: format_moment(request.started_ms)),
)


UsageLine = tuple[Mapping[str, str], ledger.Usage, ledger.ProviderCosts]
"""The columns that name a group of usage, its sums, and what providers bill for it."""
_GROUP_TITLES: Final[Mapping[ledger.UsageGroup, tuple[str, ...]]] = {
    "day": ("DAY UTC",),
    "model": ("MODEL",),
    "key": ("KEY", "ACCOUNT", "NAME"),
    "account": ("ACCOUNT",),
}
_COST_TITLES: Final = ("WITH COST", "PROVIDER COST", "MARGIN", "REPORTED", "EXCESS")


def table_usage(rows: Sequence[UsageLine], by: ledger.UsageGroup, currency: str) -> str:
    """Render usage by group, with a total of several; with providers' costs if any are known."""
    titles = ["REQUESTS", "INPUT", "OF IT CACHED", "OF IT WRITTEN", "OUTPUT", f"COST {currency}"]
    if has_costs := any(any(costs) for *_, costs in rows):
        titles += _COST_TITLES
    groups = _GROUP_TITLES[by]
    columns = (
        *(Column(title) for title in groups),
        *(Column(title, right=True) for title in titles),
    )
    lines = [
        (
            *(name or "-" for name in names.values()),
            *_figures(sums),
            *(_cells(costs) if has_costs else ()),
        )
        for names, sums, costs in rows
    ]
    if len(rows) > 1:
        total = ledger.sum_usage(sums for _, sums, _ in rows)
        costs = ledger.sum_costs(costs for *_, costs in rows)
        lines.append(
            (
                *("total", *[""] * (len(groups) - 1)),
                *_figures(total),
                *(_cells(costs) if has_costs else ()),
            )
        )
    return render_table(columns, lines)


def _figures(usage: ledger.Usage) -> tuple[str, ...]:
    """Return the cells of a sum; all input is one figure, as in the vendors' SDKs."""
    tokens = usage.tokens
    counts = (tokens.all_input, tokens.cached_input, tokens.cache_write, tokens.output)
    return (str(usage.requests), *map(str, counts), format_amount(usage.cost_nano))


def _cells(costs: ledger.ProviderCosts) -> tuple[str, ...]:
    """Describe what providers bill; "-" where it is not known."""
    amounts = (
        (costs.known, costs.cost_nano),
        (costs.known, costs.margin_nano),
        (costs.reported, costs.reported_nano),
        (costs.compared, costs.difference_nano),
    )
    shown = (format_amount(nano) if requests else "-" for requests, nano in amounts)
    return (str(costs.known), *shown)


def csv_usage(rows: Sequence[UsageLine], by: ledger.UsageGroup) -> str:
    names = ("key", "account", "key_name") if by == "key" else (by,)
    empty = views.describe_usage(ledger.Usage()) | views.describe_costs(ledger.ProviderCosts())
    described = [
        (names, views.describe_usage(sums) | views.describe_costs(costs))
        for names, sums, costs in rows
    ]
    return csv_text.render_csv(
        (*names, *empty),
        [
            (*names.values(), *("" if one is None else str(one) for one in members.values()))
            for names, members in described
        ],
    )


def page_account(detail: ledger.AccountDetail, currency: str) -> str:
    """Render an account with its keys and latest entries."""
    account = detail.account
    available_nano = account.balance_nano - account.held_nano
    amounts_nano = (account.balance_nano, account.held_nano, available_nano)
    balance, held, available = align_points([format_amount(nano) for nano in amounts_nano])
    fields = (
        ("account", account.name),
        ("balance", f"{balance} {currency}"),
        ("held", f"{held} {currency}"),
        ("available", f"{available} {currency}"),
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
