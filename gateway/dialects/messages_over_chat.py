"""Messages callers over a chat upstream: the pure translators put together. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from gateway.dialects.base import CompletionRequest, Pipeline, Reply, ReplyContext, Target
from gateway.dialects.chat_reply import replay_chat_reply
from gateway.dialects.checks import dump_request
from gateway.dialects.from_chat_reply import read_chat_reply_as_message
from gateway.dialects.from_chat_stream import ChatToMessagesStream
from gateway.dialects.to_chat_request import write_chat_request


class MessagesOverChat:
    """An `Exchange`: nothing passes as it is, everything is translated."""

    path: Final = "/chat/completions"
    passed_headers: Final = ()

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def write_request(self, request: CompletionRequest, target: Target) -> bytes:
        return dump_request(write_chat_request(request, target))

    def read_reply(self, body: bytes, context: ReplyContext) -> Reply:
        return read_chat_reply_as_message(body, context)

    def replay_reply(self, body: bytes) -> bytes:
        return replay_chat_reply(body)

    def open_pipeline(self, context: ReplyContext) -> Pipeline:
        return ChatToMessagesStream(context)
