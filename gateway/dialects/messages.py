"""The messages dialect: what its callers see. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from gateway.errors import GatewayError


class MessagesErrors:
    """Anthropic's error envelope and headers (wire.md §2.2)."""

    name: Final = "messages"

    def render_error(self, error: GatewayError, request_id: str) -> bytes:
        return orjson.dumps(
            {
                "type": "error",
                "error": {"type": error.messages_type, "message": error.message},
                "request_id": request_id,
            }
        )

    def render_error_event(self, error: GatewayError, request_id: str) -> bytes:
        return b"event: error\ndata: " + self.render_error(error, request_id) + b"\n\n"

    def reply_headers(self, request_id: str) -> Mapping[str, str]:
        return {"x-request-id": request_id, "request-id": request_id}
