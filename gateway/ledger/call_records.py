"""Records of calls: receipts, with the words for how a call ended.

The API, the console and the command line show the same receipt and the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal

from gateway.base import money
from gateway.base.prices import AppliedPrice
from gateway.base.times import format_iso


@dataclass(frozen=True, slots=True)
class Spent:
    """Charges of a key or an account for requests that ended in the last UTC days, with today."""

    today_nano: int
    week_nano: int
    """The last 7 days."""
    month_nano: int
    """The last 30 days."""


Outcome = Literal[
    "pending",  # in flight
    "complete",  # the reply is complete
    "caller_left",  # the caller went away
    "upstream_error",  # the provider failed, refused or broke off
    "upstream_timeout",  # a deadline of the gateway passed
    "rejected",  # the upstream rejected the caller's request
    "ledger_error",  # the charge could not be written
    "shutdown",  # the gateway was stopped
    "internal_error",  # a fault of the gateway
    "interrupted",  # the gateway died; its next start, or another node, noticed it
]


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction that the operator made to a request's charge."""

    amount_nano: int
    """Positive amounts were added to the balance."""
    note: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The ledger's record of one request, for its caller."""

    request_id: str
    key_id: str
    state: Literal["pending", "posted", "voided"]
    outcome: Outcome
    model: str
    provider: str
    stream: bool
    price: AppliedPrice
    hold_nano: int
    started_ms: int
    attempts: int | None = None
    """How many routes were tried; None if the request is pending or interrupted."""
    status: int | None = None
    """None if the request is pending or interrupted."""
    tokens: money.Tokens = field(default_factory=money.Tokens)
    tool_calls: Mapping[str, int] = field(default_factory=money.count_none)
    cost_nano: int = 0
    estimated: bool = False
    first_byte_ms: int | None = None
    """Time from the request's arrival to the caller's first byte."""
    ended_ms: int | None = None
    """For interrupted requests, the time of the recovery or the take-over."""
    corrections: tuple[Correction, ...] = ()
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class OutcomeWords:
    """An outcome in words."""

    by: Literal["caller", "upstream", "gateway"] | None
    """The party that ended the request; None while it is in flight."""
    label: str
    """A few words, for a column."""
    sentence: str


OUTCOME_WORDS: Final[Mapping[Outcome, OutcomeWords]] = MappingProxyType({
    "pending": OutcomeWords(None, "in flight", "The call is in flight."),
    "complete": OutcomeWords("upstream", "done", "The reply is complete."),
    "caller_left": OutcomeWords("caller", "caller left", "The caller left before the end."),
    "upstream_error": OutcomeWords("upstream", "provider failed", "The provider failed, refused the call or broke off."),
    "upstream_timeout": OutcomeWords("gateway", "provider too slow", "The gateway ended the call, because the provider was too slow."),
    "rejected": OutcomeWords("upstream", "rejected", "The provider rejected the request: it found fault with it."),
    "ledger_error": OutcomeWords("gateway", "not recorded", "The gateway could not record the charge, so it kept the reply back."),
    "shutdown": OutcomeWords("gateway", "gateway stopped", "The gateway was stopped before the end."),
    "internal_error": OutcomeWords("gateway", "gateway failed", "The gateway failed by a fault of its own; its log says more under the request id."),
    "interrupted": OutcomeWords("gateway", "interrupted", "The gateway died during the call; it charged nothing for it."),
})  # fmt: skip


def describe_receipt(
    receipt: Receipt, currency: str, *, for_operator: bool = False
) -> dict[str, object]:
    """Make the JSON of a receipt: money as a decimal string and as integer nano-units."""
    ending = OUTCOME_WORDS[receipt.outcome]
    return {
        "request_id": receipt.request_id,
        "state": receipt.state,
        "outcome": receipt.outcome,
        "ended_by": ending.by,
        "explanation": ending.sentence,
        "status": receipt.status,
        "model": receipt.model,
        "provider": receipt.provider,
        "attempts": receipt.attempts,
        "stream": receipt.stream,
        "currency": currency,
        **money.describe_amount("hold", receipt.hold_nano),
        **money.describe_amount("cost", receipt.cost_nano),
        "estimated": receipt.estimated,
        "tokens": money.format_tokens(receipt.tokens),
        **money.describe_tokens(receipt.tokens),
        "cache_write_tokens": receipt.tokens.cache_write,
        "cache_write_1h_tokens": receipt.tokens.cache_write_1h,
        "web_searches": receipt.tool_calls.get(money.WEB_SEARCH, 0),
        "tool_calls": dict(receipt.tool_calls),
        "price": money.describe_price(receipt.price.price, for_operator=for_operator),
        "price_rule": receipt.price.rule or None,
        "started": format_iso(receipt.started_ms),
        "first_byte_ms": receipt.first_byte_ms,
        "ended": format_iso(receipt.ended_ms),
        "corrections": [_describe_correction(one) for one in receipt.corrections],
    }


def _describe_correction(correction: Correction) -> dict[str, object]:
    """Make the JSON of a later correction; the receipt's `cost` stays what was charged."""
    return {
        **money.describe_amount("amount", correction.amount_nano),
        "note": correction.note,
        "created": format_iso(correction.created_ms),
    }
