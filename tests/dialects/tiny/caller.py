"""Callers of the tiny dialect."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from gateway.dialects.records import CompletionRequest, Json, ListedModel, Query, RateLimit
from gateway.dialects.wire import fields
from gateway.errors import GatewayError


class TinyCaller:
    """A `Caller`."""

    name = "tiny"
    path = "/tiny"
    marker = "x-tiny"
    keep_alive = b": .\n\n"

    def parse_request(self, data: bytes) -> CompletionRequest:
        body = fields.read_body(data)
        checks = {"to": fields.check_string, "lines": fields.check_array}
        fields.check_all(body, checks, required=checks)
        return CompletionRequest(
            body=body,
            model=body["to"],
            stream=body.get("flow") is True,
            wants_usage=True,
            max_tokens=body.get("most"),
        )

    def render_error(self, error: GatewayError, request_id: str) -> bytes:
        return json.dumps({"oops": error.message, "request": request_id}).encode()

    def render_error_event(
        self,
        error: GatewayError,
        request_id: str,
        position: Json | None,  # noqa: ARG002 - the protocol's
        headers: Mapping[str, str],  # noqa: ARG002 - the protocol's
    ) -> bytes:
        return b"data: " + self.render_error(error, request_id) + b"\n\n"

    def reply_headers(self, request_id: str) -> Mapping[str, str]:
        return {"x-request-id": request_id}

    def limit_headers(self, limits: Sequence[RateLimit], now_ms: int) -> Mapping[str, str]:  # noqa: ARG002 - without a time
        return {f"left-{one.name}": str(one.remaining) for one in limits}

    def list_models(self, models: Sequence[ListedModel], query: Query) -> Json:  # noqa: ARG002 - no pages
        return {"all": [self.show_model(model) for model in models]}

    def show_model(self, model: ListedModel) -> Json:
        return {"to": model.id}
