"""Accounts, keys, entries, codes, usage and prices as JSON objects, wherever they are shown.

Every amount stands twice: as a decimal string and, under `…_nano`, as whole nano-units.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.money import Price, Tokens, format_amount
from gateway.times import format_iso

if TYPE_CHECKING:
    from gateway.accounts import (
        AccountDetail,
        AccountView,
        AuditReport,
        EntryView,
        InterruptedView,
        KeyView,
        UsageRow,
    )
    from gateway.ledger.code_records import CodeView, NewCodes


def money(name: str, nano: int | None) -> dict[str, object]:
    """An amount under its name, twice."""
    return {name: None if nano is None else format_amount(nano), f"{name}_nano": nano}


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
        "last_used": format_iso(key.last_used_ms),
        "replaced_by": key.replaced_by,
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


def describe_code(code: CodeView, now_ms: int) -> dict[str, object]:
    """A code without its secret."""
    return {
        "id": code.id,
        "batch": code.batch,
        "display": code.display,
        **money("amount", code.amount_nano),
        "status": code.status(now_ms),
        "note": code.note,
        "created": format_iso(code.created_ms),
        "created_by": code.created_by,
        "expires": format_iso(code.expires_ms),
        "redeemed": format_iso(code.redeemed_ms),
        "redeemed_by": code.redeemed_by,
        "voided": format_iso(code.voided_ms),
    }


def describe_new_codes(made: NewCodes) -> dict[str, object]:
    """A batch with its codes, which are shown this once."""
    return {
        "batch": made.batch,
        "codes": list(made.codes),
        **money("amount", made.amount_nano),
        "expires": format_iso(made.expires_ms),
        "created": format_iso(made.created_ms),
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
        **count_tokens(row.tokens),
        **money("cost", row.cost_nano),
    }


def describe_audit(report: AuditReport) -> dict[str, object]:
    return {
        "ok": report.ok,
        "accounts": report.accounts,
        "entries": report.entries,
        "pending": report.pending,
        "interrupted": report.interrupted,
        "unsettled": report.unsettled,
        "to_settle": [describe_interrupted(one) for one in report.to_settle],
        "problems": list(report.problems),
    }


def describe_interrupted(request: InterruptedView) -> dict[str, object]:
    return {
        "id": request.request_id,
        "account": request.account,
        "model": request.model,
        "provider": request.provider,
        **money("hold", request.hold_nano),
        "started": format_iso(request.started_ms),
    }


def count_tokens(tokens: Tokens) -> dict[str, int]:
    """Token counts by price class, under the names that tools see."""
    return {
        "input_tokens": tokens.input,
        "cached_input_tokens": tokens.cached_input,
        "cache_write_tokens": tokens.cache_write,
        "output_tokens": tokens.output,
    }


def describe_price(price: Price) -> dict[str, object]:
    """Per million tokens of each class, and per request, under the names of gateway.toml."""
    return {
        **money("input", price.input),
        **money("cached_input", price.cached_input),
        **money("cache_write", price.cache_write),
        **money("output", price.output),
        **money("request", price.request),
    }
