"""The callers of OpenAI's APIs share the error envelope, headers, and the list of models."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import orjson

from gateway.dialects.records import Json, ListedModel, Query, RateLimit
from gateway.errors import GatewayError


class OpenAICaller:
    """The part of a `Caller` that does not depend on which of OpenAI's APIs is called."""

    def render_error(self, error: GatewayError, request_id: str) -> bytes:  # noqa: ARG002 - the id is in the headers
        return orjson.dumps(
            {
                "error": {
                    "message": error.message,
                    "type": error.type,
                    "param": error.param,
                    "code": error.code,
                }
            }
        )

    def reply_headers(self, request_id: str) -> Mapping[str, str]:
        return {"x-request-id": request_id}

    def limit_headers(self, limits: Sequence[RateLimit], now_ms: int) -> Mapping[str, str]:  # noqa: ARG002 - durations only
        return write_limits(limits)

    def list_models(self, models: Sequence[ListedModel], query: Query) -> Json:  # noqa: ARG002 - OpenAI's list has no pages
        return {"object": "list", "data": [self.show_model(model) for model in models]}

    def show_model(self, model: ListedModel) -> Json:
        return {
            "id": model.id,
            "object": "model",
            "created": model.created,
            "owned_by": model.owned_by,
        }


def write_limits(limits: Iterable[RateLimit]) -> dict[str, str]:
    """Write the headers `x-ratelimit-*`, which all callers get, as OpenAI's API has them."""
    headers: dict[str, str] = {}
    for one in limits:
        headers[f"x-ratelimit-limit-{one.name}"] = str(one.limit)
        headers[f"x-ratelimit-remaining-{one.name}"] = str(one.remaining)
        headers[f"x-ratelimit-reset-{one.name}"] = format_duration(one.reset_seconds)
    return headers


def format_duration(seconds: float) -> str:
    """Format a Go duration as OpenAI does: `12ms`, `1s`, `6m0s`."""
    milliseconds = max(0, round(seconds * 1000))
    if milliseconds < 1000:  # noqa: PLR2004 - a second
        return f"{milliseconds}ms"
    whole = -(-milliseconds // 1000)
    minutes, rest = divmod(whole, 60)
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
