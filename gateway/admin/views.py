"""Accounts, keys, entries, codes, calls and usage as JSON objects.

Every amount is given twice: as a decimal string and, under `…_nano`, in whole nano-units.
"""

from __future__ import annotations

from gateway.ledger.alert_records import UpstreamFailure
from gateway.ledger.call_records import (
    ENDINGS,
    CallDetail,
    CallView,
    ProviderCosts,
    Usage,
    describe_receipt,
)
from gateway.ledger.key_records import BudgetStanding, BudgetView, KeyView, Terms
from gateway.ledger.records import (
    AccountDetail,
    AccountView,
    AuditReport,
    CodeView,
    EntryView,
    EventView,
    InterruptedView,
    NewCodes,
)
from gateway.ledger.signin_records import TokenView
from gateway.money import describe_amount, describe_tokens
from gateway.times import format_iso


def describe(record: object, *names: str) -> dict[str, object]:
    """Return these attributes of a record for JSON, under their names.

    The suffix tells the unit: `…_nano` is an amount, and `…_ms` a time, which loses the suffix.
    """
    members: dict[str, object] = {}
    for name in names:
        value = getattr(record, name)
        if name.endswith("_nano"):
            members |= describe_amount(name.removesuffix("_nano"), value)
        elif name.endswith("_ms"):
            members[name.removesuffix("_ms")] = format_iso(value)
        else:
            members[name] = value
    return members


def describe_account(account: AccountView) -> dict[str, object]:
    figures = ("id", "name", "operator", "suspended", "balance_nano", "held_nano", "created_ms")
    return {**describe(account, *figures), **_describe_terms(account.terms)}


def _describe_terms(terms: Terms) -> dict[str, object]:
    limits = describe(terms, "requests_per_minute", "tokens_per_minute", "concurrency")
    return {"models": None if terms.models is None else sorted(terms.models), **limits}


def describe_key(key: KeyView) -> dict[str, object]:
    """Return a key without its secret."""
    return {
        **describe(key, "id", "account"),
        "name": key.terms.name,
        "display": key.display,
        **_describe_terms(key.terms),
        **describe(key.terms, "cap_nano"),
        **describe(key, "spent_nano", "created_ms"),
        **describe(key.terms, "expires_ms"),
        **describe(key, "revoked_ms", "last_used_ms", "replaced_by"),
        "budget": None if key.budget is None else _describe_standing(key.budget),
    }


def describe_budget(budget: BudgetView) -> dict[str, object]:
    return {**_describe_standing(budget), **describe(budget, "account", "keys", "created_ms")}


def _describe_standing(budget: BudgetStanding) -> dict[str, object]:
    amounts = ("amount_nano", "spent_nano", "remaining_nano")
    return describe(budget, "id", "name", "period", *amounts, "resets_ms")


def describe_entry(entry: EntryView) -> dict[str, object]:
    amounts = ("amount_nano", "balance_after_nano")
    return describe(entry, "id", "account", "kind", *amounts, "request_id", "note", "created_ms")


def describe_event(event: EventView) -> dict[str, object]:
    members = ("id", "at_ms", "actor", "action", "account", "target", "detail", "address")
    return describe(event, *members)


def describe_code(code: CodeView, now_ms: int) -> dict[str, object]:
    """Return a code without its secret."""
    return {
        **describe(code, "id", "batch", "display", "amount_nano"),
        "status": code.status(now_ms),
        **describe(code, "note", "created_ms", "created_by", "expires_ms"),
        **describe(code, "redeemed_ms", "redeemed_by", "voided_ms"),
    }


def describe_new_codes(made: NewCodes) -> dict[str, object]:
    """Return a batch with its codes, which are shown only this once."""
    return describe(made, "batch", "codes", "amount_nano", "expires_ms", "created_ms")


def describe_detail(detail: AccountDetail) -> dict[str, object]:
    return {
        **describe_account(detail.account),
        "keys": [describe_key(key) for key in detail.keys],
        "entries": [describe_entry(entry) for entry in detail.entries],
    }


def describe_token(token: TokenView, now_ms: int) -> dict[str, object]:
    """Return a token without its secret."""
    return {
        **describe(token, "id"),
        **describe(token.terms, "name", "role"),
        **describe(token, "display"),
        "status": token.status(now_ms),
        **describe(token, "created_ms", "created_by"),
        **describe(token.terms, "expires_ms"),
        **describe(token, "revoked_ms", "last_used_ms"),
    }


def describe_usage(usage: Usage) -> dict[str, object]:
    return {
        "requests": usage.requests,
        **describe_tokens(usage.tokens),
        **describe_amount("cost", usage.cost_nano),
    }


def describe_costs(costs: ProviderCosts) -> dict[str, object]:
    """Return what providers bill, for operators alone; null where nothing is known of it."""
    return {
        **describe_amount("provider_cost", costs.cost_nano if costs.known else None),
        **describe_amount("margin", costs.margin_nano if costs.known else None),
        "costed_requests": costs.known,
        **describe_amount("reported_cost", costs.reported_nano if costs.reported else None),
        **describe_amount("reported_excess", costs.difference_nano if costs.compared else None),
        "reported_requests": costs.reported,
    }


def describe_call(call: CallView) -> dict[str, object]:
    return {
        **describe(call, "request_id", "account", "started_ms", "ended_ms", "model", "provider"),
        "key": call.key_id,
        **describe(call, "key_name", "key_display", "state", "outcome"),
        "outcome_label": ENDINGS[call.outcome].label,
        **describe(call, "status", "stream"),
        **describe_tokens(call.tokens),
        **describe(call, "cost_nano", "estimated"),
        "first_byte_ms": call.first_byte_ms,
        "total_ms": call.total_ms,
    }


def describe_failure(failure: UpstreamFailure) -> dict[str, object]:
    return describe(failure, "at_ms", "request_id", "status", "reason", "url")


def describe_call_detail(
    detail: CallDetail, currency: str, *, for_operator: bool
) -> dict[str, object]:
    key = {"key": detail.key.id, "key_name": detail.key.name, "key_display": detail.key.display}
    receipt = describe_receipt(detail.receipt, currency, for_operator=for_operator)
    members = {"account": detail.account, **key, **receipt}
    if for_operator:
        members["failures"] = [describe_failure(one) for one in detail.failures]
    return members


def describe_audit(report: AuditReport) -> dict[str, object]:
    return {
        **describe(report, "ok", "accounts", "entries", "pending", "interrupted", "unsettled"),
        "to_settle": [describe_interrupted(one) for one in report.to_settle],
        "problems": list(report.problems),
    }


def describe_interrupted(request: InterruptedView) -> dict[str, object]:
    members = describe(request, "account", "model", "provider", "hold_nano", "started_ms")
    return {"id": request.request_id, **members}
