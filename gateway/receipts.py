"""`GET /v1/receipts/{request_id}`: what one request was charged and why, for the key that made it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

import orjson
from aiohttp import web

from gateway.errors import NotFound
from gateway.ledger.base import Correction, Outcome, Receipt
from gateway.state import CALL, GATEWAY
from gateway.times import format_iso
from gateway.views import count_tokens, describe_price, money

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

_REQUEST_ID = re.compile(r"[\w-]{1,100}", re.ASCII)


async def show_receipt(request: web.Request) -> web.Response:
    gateway, key = request.app[GATEWAY], request[CALL].key
    assert key is not None
    request_id = request.match_info["request_id"]
    receipt = None
    if _REQUEST_ID.fullmatch(request_id):
        receipt = await gateway.ledger.read_receipt(request_id)
    if receipt is None or receipt.key_id != key.id:
        raise NotFound(
            "There is no receipt of that request id for this key. The id is in the reply's "
            "x-request-id; only the key that made a request gets its receipt, and a request "
            "that was refused before it was admitted has none."
        )
    body = describe_receipt(receipt, gateway.config.billing.currency)
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def describe_receipt(receipt: Receipt, currency: str) -> dict[str, Any]:
    """The receipt as JSON: money twice, as a decimal string and as integer nano-units."""
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
        **money("hold", receipt.hold_nano),
        **money("cost", receipt.cost_nano),
        "estimated": receipt.estimated,
        **count_tokens(receipt.tokens),
        "price": describe_price(receipt.price),
        "started": format_iso(receipt.started_ms),
        "first_byte_ms": receipt.first_byte_ms,
        "ended": format_iso(receipt.ended_ms),
        "corrections": [_describe_correction(one) for one in receipt.corrections],
    }


def _describe_correction(correction: Correction) -> dict[str, object]:
    """What was added to the balance afterwards; `cost` stays what was charged."""
    return {
        **money("amount", correction.amount_nano),
        "note": correction.note,
        "created": format_iso(correction.created_ms),
    }
