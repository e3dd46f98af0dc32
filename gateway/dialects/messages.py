"""The messages dialect: what its callers see, and messages over a messages upstream. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from gateway.dialects.base import CompletionRequest, Pipeline, Reply, ReplyContext, Target
from gateway.dialects.chat_over_messages import ANTHROPIC_VERSION
from gateway.dialects.checks import dump_request
from gateway.dialects.from_messages_reply import replay_messages_reply
from gateway.dialects.messages_reply import read_messages_reply
from gateway.dialects.messages_request import parse_messages_request
from gateway.dialects.messages_stream import MessagesStream
from gateway.errors import BadRequest, GatewayError


class MessagesDialect:
    """A `CallerDialect`: Anthropic's envelopes, events and headers (wire.md §2.2 and §4)."""

    name: Final = "messages"
    keep_alive: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

    def parse_request(self, body: bytes) -> CompletionRequest:
        return parse_messages_request(body)

    def render_error(self, error: GatewayError, request_id: str) -> bytes:
        inner: dict[str, object] = {"type": error.messages_type, "message": error.message}
        if isinstance(error, BadRequest) and error.detail_code is not None:
            inner["details"] = {"error_code": error.detail_code}
        return orjson.dumps({"type": "error", "error": inner, "request_id": request_id})

    def render_error_event(self, error: GatewayError, request_id: str) -> bytes:
        return b"event: error\ndata: " + self.render_error(error, request_id) + b"\n\n"

    def reply_headers(self, request_id: str) -> Mapping[str, str]:
        return {"x-request-id": request_id, "request-id": request_id}


class MessagesOverMessages:
    """An `Exchange`: bytes pass, but for the model's name."""

    path = "/messages"
    passed_headers: Final = ("anthropic-version", "anthropic-beta")

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        headers = {"anthropic-version": ANTHROPIC_VERSION}
        return {"x-api-key": api_key, **headers} if api_key else headers

    def write_request(self, request: CompletionRequest, target: Target) -> bytes:
        return dump_request({**request.body, "model": target.upstream_model})

    def read_reply(self, body: bytes, context: ReplyContext) -> Reply:
        return read_messages_reply(body, context)

    def replay_reply(self, body: bytes) -> bytes:
        return replay_messages_reply(body)

    def open_pipeline(self, context: ReplyContext) -> Pipeline:
        return MessagesStream(context)


class CountTokens(MessagesOverMessages):
    """count_tokens over a messages upstream: free, and passed on whole."""

    path = "/messages/count_tokens"
