"""`GET /v1/receipts/{request_id}`: the charge of one request and its reasons, for the same key."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.api.state import Call
from gateway.errors import NotFound
from gateway.ledger import Correction, Outcome, Receipt
from gateway.money import describe_amount, describe_price, describe_tokens
from gateway.request_ids import is_request_id
from gateway.times import format_iso

ENDED_BY: Final[Mapping[Outcome, str | None]] = MappingProxyType(
    {
        "pending": None,
        "complete": "upstream",
        "caller_left": "caller",
        "upstream_error": "upstream",
        "upstream_timeout": "gateway",  # a deadline of ours
        "rejected": "upstream",
        "ledger_error": "gateway",
        "shutdown": "gateway",
        "internal_error": "gateway",
        "interrupted": "gateway",
    }
)


async def show_receipt(http: web.Request, call: Call) -> web.Response:
    gateway, key = call.gateway, call.key
    assert key is not None
    request_id = http.match_info["request_id"]
    is_id = is_request_id(request_id)
    receipt = await gateway.ledger.read_receipt(request_id) if is_id else None
    if receipt is None or receipt.key_id != key.id:
        raise NotFound(
            "There is no receipt of that request id for this key. The id is in the reply's "
            "x-request-id; only the key that made a request gets its receipt, and a request "
            "that was refused before it was admitted has none."
        )
    body = describe_receipt(receipt, gateway.config.billing.currency)
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def describe_receipt(receipt: Receipt, currency: str) -> dict[str, Any]:
    """Make the JSON of a receipt: money as a decimal string and as integer nano-units."""
    return {
        "request_id": receipt.request_id,
        "state": receipt.state,
        "outcome": receipt.outcome,
        "ended_by": ENDED_BY[receipt.outcome],
        "status": receipt.status,
        "model": receipt.model,
        "provider": receipt.provider,
        "attempts": receipt.attempts,
        "stream": receipt.stream,
        "currency": currency,
        **describe_amount("hold", receipt.hold_nano),
        **describe_amount("cost", receipt.cost_nano),
        "estimated": receipt.estimated,
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
