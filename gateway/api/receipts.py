"""`GET /v1/receipts/{request_id}`: the charge of one request and its reasons, for the same key."""

from __future__ import annotations

from aiohttp import web

from gateway.api.state import Call
from gateway.dialects import dumps_lenient
from gateway.errors import NotFound
from gateway.ledger import describe_receipt
from gateway.request_ids import is_request_id


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
    return web.Response(body=dumps_lenient(body), content_type="application/json")
