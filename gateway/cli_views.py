"""Accounts, keys, entries and usage as a command shows them: a JSON object, a row, a page.

In JSON every amount stands twice: as a decimal string and, under `…_nano`, as whole nano-units.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gateway.cli_output import (
    Column,
    format_iso,
    format_moment,
    render_csv,
    render_fields,
    render_table,
)
from gateway.money import Tokens, format_amount

if TYPE_CHECKING:
    from gateway.accounts import (
        AccountDetail,
        AccountView,
        AuditReport,
        EntryView,
        KeyView,
        UsageRow,
    )

MONEY_COLUMNS = ("balance", "held")


def money(name: str, nano: int | None) -> dict[str, object]:
    """An amount under its name, twice."""
    return {name: None if nano is None else format_amount(nano), f"{name}_nano": nano}


# ---- JSON ----------------------------------------------------------------------------------------


def describe_account(account: AccountView) -> dict[str, object]:
    return {
        "id": account.id,
        "name": account.name,
        "operator": account.operator,
        "suspended": account.suspended,
        **money("balance", account.balance_nano),
        **money("held", account.held_nano),
        "created": format_iso(account.created_ms),
    }


def describe_key(key: KeyView) -> dict[str, object]:
    """A key without its secret."""
    return {
        "id": key.id,
        "account": key.account,
        "name": key.name,
        "display": key.display,
        "models": None if key.models is None else sorted(key.models),
        "requests_per_minute": key.requests_per_minute,
        "tokens_per_minute": key.tokens_per_minute,
        "concurrency": key.concurrency,
        **money("cap", key.cap_nano),
        **money("spent", key.spent_nano),
        "created": format_iso(key.created_ms),
        "expires": format_iso(key.expires_ms),
        "revoked": format_iso(key.revoked_ms),
    }


def describe_entry(entry: EntryView) -> dict[str, object]:
    return {
        "id": entry.id,
        "account": entry.account,
        "kind": entry.kind,
        **money("amount", entry.amount_nano),
        **money("balance_after", entry.balance_after_nano),
        "request_id": entry.request_id,
        "note": entry.note,
        "created": format_iso(entry.created_ms),
    }


def describe_detail(detail: AccountDetail) -> dict[str, object]:
    return {
        **describe_account(detail.account),
        "keys": [describe_key(key) for key in detail.keys],
        "entries": [describe_entry(entry) for entry in detail.entries],
    }


def describe_usage(row: UsageRow, by: str) -> dict[str, object]:
    return {
        by: row.group,
        "requests": row.requests,
        **_count_tokens(row.tokens),
        **money("cost", row.cost_nano),
    }


def describe_audit(report: AuditReport) -> dict[str, object]:
    return {
        "ok": report.ok,
        "accounts": report.accounts,
        "entries": report.entries,
        "pending": report.pending,
        "interrupted": report.interrupted,
        "problems": list(report.problems),
    }


def _count_tokens(tokens: Tokens) -> Mapping[str, int]:
    return {
        "input_tokens": tokens.input,
        "cached_input_tokens": tokens.cached_input,
        "cache_write_tokens": tokens.cache_write,
        "output_tokens": tokens.output,
    }


# ---- tables --------------------------------------------------------------------------------------


def table_accounts(accounts: Sequence[AccountView], currency: str) -> str:
    columns = (
        Column("NAME"),
        Column(f"BALANCE {currency}", right=True),
        Column(f"HELD {currency}", right=True),
        Column("STATE"),
        Column("CREATED UTC"),
    )
    return render_table(
        columns,
        [
            (
                account.name,
                format_amount(account.balance_nano),
                format_amount(account.held_nano),
                _state_of_account(account),
                format_moment(account.created_ms),
            )
            for account in accounts
        ],
    )


def table_keys(keys: Sequence[KeyView], currency: str, now_ms: int) -> str:
    columns = (
        Column("ID"),
        Column("ACCOUNT"),
        Column("NAME"),
        Column("KEY"),
        Column("STATE"),
        Column(f"SPENT {currency}", right=True),
        Column(f"CAP {currency}", right=True),
        Column("MODELS"),
    )
    return render_table(
        columns,
        [
            (
                key.id,
                key.account,
                key.name or "-",
                key.display,
                state_of_key(key, now_ms),
                format_amount(key.spent_nano),
                "-" if key.cap_nano is None else format_amount(key.cap_nano),
                "all" if key.models is None else ", ".join(sorted(key.models)),
            )
            for key in keys
        ],
    )


def table_entries(entries: Sequence[EntryView], currency: str) -> str:
    columns = (
        Column("WHEN UTC"),
        Column("KIND"),
        Column(f"AMOUNT {currency}", right=True),
        Column(f"BALANCE {currency}", right=True),
        Column("NOTE"),
    )
    return render_table(
        columns,
        [
            (
                format_moment(entry.created_ms),
                entry.kind,
                format_amount(entry.amount_nano),
                format_amount(entry.balance_after_nano),
                " ".join(part for part in (entry.request_id, entry.note) if part),
            )
            for entry in entries
        ],
    )


def table_usage(rows: Sequence[UsageRow], by: str, currency: str) -> str:
    """The groups and, below several, their sum."""
    columns = (
        Column(by.upper() if by != "day" else "DAY UTC"),
        *(Column(title, right=True) for title in ("REQUESTS", "INPUT", "CACHED", "WRITTEN")),
        Column("OUTPUT", right=True),
        Column(f"COST {currency}", right=True),
    )
    figures = [(row.requests, *_count_tokens(row.tokens).values(), row.cost_nano) for row in rows]
    names = [row.group for row in rows]
    if len(rows) > 1:
        names.append("total")
        figures.append(tuple(map(sum, zip(*figures, strict=True))))
    return render_table(
        columns,
        [
            (name, *(str(number) for number in line[:-1]), format_amount(line[-1]))
            for name, line in zip(names, figures, strict=True)
        ],
    )


def csv_usage(rows: Sequence[UsageRow], by: str) -> str:
    header = (by, "requests", *_count_tokens(Tokens()), "cost", "cost_nano")
    return render_csv(
        header,
        [
            (
                row.group,
                row.requests,
                *_count_tokens(row.tokens).values(),
                format_amount(row.cost_nano),
                row.cost_nano,
            )
            for row in rows
        ],
    )


def page_account(detail: AccountDetail, currency: str, now_ms: int) -> str:
    """Everything about an account, for people."""
    account = detail.account
    fields = (
        ("account", account.name),
        ("balance", f"{format_amount(account.balance_nano)} {currency}"),
        ("held", f"{format_amount(account.held_nano)} {currency}"),
        ("available", f"{format_amount(account.balance_nano - account.held_nano)} {currency}"),
        ("state", _state_of_account(account)),
        ("created", f"{format_moment(account.created_ms)} UTC"),
    )
    parts = [render_fields(fields)]
    if detail.keys:
        parts.append("Keys\n" + table_keys(detail.keys, currency, now_ms))
    if detail.entries:
        parts.append("Latest entries\n" + table_entries(detail.entries, currency))
    return "\n\n".join(parts)


def _state_of_account(account: AccountView) -> str:
    state = "suspended" if account.suspended else "active"
    return f"{state}, operator" if account.operator else state


def state_of_key(key: KeyView, now_ms: int) -> str:
    """Whether a key works, and until when."""
    if key.revoked_ms is not None and key.revoked_ms <= now_ms:
        return f"revoked {format_moment(key.revoked_ms)}"
    if key.expires_ms is None:
        return "active"
    ended = "expired" if key.expires_ms <= now_ms else "until"
    return f"{ended} {format_moment(key.expires_ms)}"
