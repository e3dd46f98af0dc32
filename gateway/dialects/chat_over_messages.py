"""Chat callers over a messages upstream: the pair's `Exchange`, around pure translators. No I/O."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

from gateway.dialects.base import CompletionRequest, Pipeline, Reply, ReplyContext, Target
from gateway.dialects.checks import dump_request
from gateway.dialects.from_messages_reply import from_messages_reply, replay_messages_reply
from gateway.dialects.from_messages_stream import MessagesAsChat
from gateway.dialects.to_messages_request import to_messages_request

ANTHROPIC_VERSION: Final = "2023-06-01"
"""The API version that the translators write and read."""


class ChatOverMessages:
    """An `Exchange`: wire.md §5.1 on the way in, §5.3 and §5.4 on the way out."""

    path: Final = "/messages"
    passed_headers: Final = ()

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        headers = {"anthropic-version": ANTHROPIC_VERSION}
        return {"x-api-key": api_key, **headers} if api_key else headers

    def write_request(self, request: CompletionRequest, target: Target) -> bytes:
        return dump_request(to_messages_request(request, target))

    def read_reply(self, body: bytes, context: ReplyContext) -> Reply:
        return from_messages_reply(body, context, int(time.time()))

    def replay_reply(self, body: bytes) -> bytes:
        return replay_messages_reply(body)

    def open_pipeline(self, context: ReplyContext) -> Pipeline:
        return MessagesAsChat(context, int(time.time()))
