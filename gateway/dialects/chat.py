"""The chat completions dialect: what its callers see, and chat over a chat upstream. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import orjson

from gateway.dialects.base import CompletionRequest, Pipeline, Reply, ReplyContext, Target
from gateway.dialects.chat_reply import read_chat_reply, replay_chat_reply
from gateway.dialects.chat_request import parse_chat_request
from gateway.dialects.chat_stream import ChatStream
from gateway.dialects.checks import dump_request
from gateway.errors import GatewayError


class ChatDialect:
    """A `CallerDialect`: OpenAI's envelopes and headers."""

    name: Final = "chat"
    keep_alive: Final = b": keep-alive\n\n"

    def parse_request(self, body: bytes) -> CompletionRequest:
        return parse_chat_request(body)

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

    def render_error_event(self, error: GatewayError, request_id: str) -> bytes:
        return b"data: " + self.render_error(error, request_id) + b"\n\n"

    def reply_headers(self, request_id: str) -> Mapping[str, str]:
        return {"x-request-id": request_id}


class ChatOverChat:
    """An `Exchange`: bytes pass, but for the edits of `ChatStream` and `read_chat_reply`."""

    path: Final = "/chat/completions"
    passed_headers: Final = ()

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def write_request(self, request: CompletionRequest, target: Target) -> bytes:
        body = {**request.body, "model": target.upstream_model}
        if not target.ask_usage:
            body.pop("stream_options", None)  # this upstream would refuse it
        elif request.stream:
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        return dump_request(body)

    def read_reply(self, body: bytes, context: ReplyContext) -> Reply:
        return read_chat_reply(body, context)

    def replay_reply(self, body: bytes) -> bytes:
        return replay_chat_reply(body)

    def open_pipeline(self, context: ReplyContext) -> Pipeline:
        return ChatStream(context)
