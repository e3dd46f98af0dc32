"""Receipts as JSON, and the words for how a request ended and who ended it.

The API, the console and the command line show the same receipt and the same words.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, Literal

from gateway.ledger.base import Correction, Outcome, Receipt
from gateway.money import describe_amount, describe_price, describe_tokens, format_tokens
from gateway.times import format_iso


@dataclass(frozen=True, slots=True)
class Ending:
    """An outcome in words."""

    by: Literal["caller", "upstream", "gateway"] | None
    """The one who ended the request; None while it is in flight."""
    label: str
    """A few words, for a column."""
    sentence: str


ENDINGS: Final[Mapping[Outcome, Ending]] = MappingProxyType(
    {
        "pending": Ending(None, "in flight", "The call is in flight."),
        "complete": Ending("upstream", "done", "The reply is complete."),
        "caller_left": Ending("caller", "caller left", "The caller left before the end."),
        "upstream_error": Ending(
            "upstream", "provider failed", "The provider failed, refused the call or broke off."
        ),
        "upstream_timeout": Ending(
            "gateway",
            "provider too slow",
            "The gateway ended the call, because the provider was too slow.",
        ),
        "rejected": Ending(
            "upstream", "rejected", "The provider rejected the request: it found fault with it."
        ),
        "ledger_error": Ending(
            "gateway",
            "not recorded",
            "The gateway could not record the charge, so it kept the reply back.",
        ),
        "shutdown": Ending("gateway", "gateway stopped", "The gateway was stopped before the end."),
        "internal_error": Ending(
            "gateway",
            "gateway failed",
            "The gateway failed by a fault of its own; its log says more under the request id.",
        ),
        "interrupted": Ending(
            "gateway",
            "interrupted",
            "The gateway died during the call; it charged nothing for it.",
        ),
    }
)


def describe_receipt(receipt: Receipt, currency: str) -> dict[str, object]:
    """Make the JSON of a receipt: money as a decimal string and as integer nano-units."""
    ending = ENDINGS[receipt.outcome]
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
        **describe_amount("hold", receipt.hold_nano),
        **describe_amount("cost", receipt.cost_nano),
        "estimated": receipt.estimated,
        "tokens": format_tokens(receipt.tokens),
        **describe_tokens(receipt.tokens),
        "cache_write_tokens": receipt.tokens.cache_write,
        "cache_write_1h_tokens": receipt.tokens.cache_write_1h,
        "web_searches": receipt.web_searches,
        "price": describe_price(receipt.price),
        "price_rule": receipt.price_rule or None,
        "started": format_iso(receipt.started_ms),
        "first_byte_ms": receipt.first_byte_ms,
        "ended": format_iso(receipt.ended_ms),
        "corrections": [_describe_correction(one) for one in receipt.corrections],
    }


def _describe_correction(correction: Correction) -> dict[str, object]:
    """Make the JSON of a later correction; the receipt's `cost` stays what was charged."""
    return {
        **describe_amount("amount", correction.amount_nano),
        "note": correction.note,
        "created": format_iso(correction.created_ms),
    }
