"""Accounts, keys, entries and usage as tables for people, and usage as CSV."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gateway.cli_output import Column, render_fields, render_table
from gateway.csv_text import render_csv
from gateway.money import Tokens, format_amount
from gateway.times import format_moment
from gateway.views import count_tokens

if TYPE_CHECKING:
    from gateway.accounts import (
        AccountDetail,
        AccountView,
        EntryView,
        InterruptedView,
        KeyView,
        UsageRow,
    )
    from gateway.ledger.code_records import CodeView


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
        Column("LIMITS"),
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
                _describe_limits(key),
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


def table_codes(codes: Sequence[CodeView], currency: str, now_ms: int) -> str:
    columns = (
        Column("ID"),
        Column("BATCH"),
        Column("CODE"),
        Column(f"AMOUNT {currency}", right=True),
        Column("STATE"),
        Column("BY"),
        Column("NOTE"),
    )
    return render_table(
        columns,
        [
            (
                code.id,
                code.batch,
                code.display,
                format_amount(code.amount_nano),
                state_of_code(code, now_ms),
                code.redeemed_by or "-",
                code.note or "-",
            )
            for code in codes
        ],
    )


def table_interrupted(requests: Sequence[InterruptedView], currency: str) -> str:
    columns = (
        Column("INTERRUPTED"),
        Column("ACCOUNT"),
        Column("MODEL"),
        Column("PROVIDER"),
        Column(f"HELD {currency}", right=True),
        Column("STARTED UTC"),
    )
    return render_table(
        columns,
        [
            (
                request.request_id,
                request.account,
                request.model,
                request.provider,
                format_amount(request.hold_nano),
                format_moment(request.started_ms),
            )
            for request in requests
        ],
    )


def table_usage(rows: Sequence[UsageRow], by: str, currency: str) -> str:
    """The groups and, below several, their sum."""
    columns = (
        Column(by.upper() if by != "day" else "DAY UTC"),
        *(Column(title, right=True) for title in ("REQUESTS", "INPUT", "CACHED", "CACHE WRITE")),
        Column("OUTPUT", right=True),
        Column(f"COST {currency}", right=True),
    )
    figures = [(row.requests, *count_tokens(row.tokens).values(), row.cost_nano) for row in rows]
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
    header = (by, "requests", *count_tokens(Tokens()), "cost", "cost_nano")
    return render_csv(
        header,
        [
            (
                row.group,
                row.requests,
                *count_tokens(row.tokens).values(),
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


def state_of_code(code: CodeView, now_ms: int) -> str:
    """What became of a code, or until when it can be redeemed."""
    status = code.status(now_ms)
    if status == "open":
        return f"until {format_moment(code.expires_ms)}" if code.expires_ms else "open"
    ended_ms = {
        "redeemed": code.redeemed_ms,
        "void": code.voided_ms,
        "expired": code.expires_ms,
    }[status]
    return f"{status} {format_moment(ended_ms or 0)}"


def _describe_limits(key: KeyView) -> str:
    """The limits a key has of its own; 0 is none, "-" the defaults of gateway.toml."""
    limits = (
        (key.requests_per_minute, "requests/min"),
        (key.tokens_per_minute, "tokens/min"),
        (key.concurrency, "at once"),
    )
    return ", ".join(f"{limit} {unit}" for limit, unit in limits if limit is not None) or "-"
