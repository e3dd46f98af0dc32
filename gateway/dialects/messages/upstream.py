"""Messages upstreams (Anthropic's API): asking them, and their JSON replies, also as streams.

`history` edits the earlier turns of a request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from gateway.base.errors import BadRequest
from gateway.base.usage import Expected, Reported
from gateway.dialects.messages.history import write_history
from gateway.dialects.messages.stream import (
    MessagesReader,
    MessagesStream,
    check_error,
    count_block_text,
    find_tool,
    is_made,
    read_messages_usage,
)
from gateway.dialects.wire.base import EventUpstream
from gateway.dialects.wire.billed import check_fields, check_tools
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import Json, ReplyContext, Target
from gateway.dialects.wire.sse import render_event

ANTHROPIC_VERSION: Final = "2023-06-01"
"""The API version sent if the caller names none. Translations write and read this version."""


class MessagesUpstream(EventUpstream):
    """An `Upstream` with Anthropic's API."""

    name = "messages"
    path = "/messages"
    is_free = False
    """The provider charges nothing at this path, as it only counts tokens."""
    reply_name = "a message"
    default_reasoning = "effort"
    passed_headers: tuple[str, ...] = ("anthropic-version", "anthropic-beta")
    models_path = "/models?limit=1000"
    """Without a limit the reply is a page of 20 models."""
    check_error = staticmethod(check_error)

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        headers = {"anthropic-version": ANTHROPIC_VERSION}
        # Azure takes its own keys in Anthropic's header, but Entra's tokens, which are JSON Web Tokens
        # (RFC 7519), in `Authorization`, as for its other models.
        if api_key.startswith("eyJ"):
            return {**super().auth_headers(api_key), **headers}
        return {"x-api-key": api_key, **headers} if api_key else headers

    def ask(self, body: Json, target: Target) -> Json:
        container = body.get("container")
        if isinstance(container, str) or (isinstance(container, dict) and container.get("id")):
            raise BadRequest(
                "container: containers of the operator's own account cannot be named.",
                param="container",
            )
        if not self.is_free:
            check_fields(body, target)
            check_tools(body, target, "tools.{}.type")
        return {**write_history(body, target), "model": target.upstream_model}

    def check_reply(self, reply: Json) -> bool:
        return type(reply.get("content")) is list

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        came = Counter(
            tool for tool in map(find_tool, get_list(reply, "content")) if tool is not None
        )
        return read_messages_usage(reply.get("usage"), expected, came)

    def is_whole(self, reply: Json) -> bool:
        return type(reply.get("stop_reason")) is str

    def has_content(self, reply: Json) -> bool:
        return any(is_made(block) or count_block_text(block) for block in read_blocks(reply))

    def count_text(self, reply: Json) -> int:
        return sum(map(count_block_text, read_blocks(reply)))

    def replay_reply(self, text: bytes, reply: Json) -> bytes:  # noqa: ARG002
        ending = {key: reply.get(key) for key in ("stop_reason", "stop_sequence", "stop_details")}
        start = {**reply, "content": [], "stop_reason": None, "stop_sequence": None}
        events: list[Json] = [{"type": "message_start", "message": start}]
        for index, block in enumerate(read_blocks(reply)):
            opened, deltas = _take_apart(block)
            where = {"index": index}
            events.append({"type": "content_block_start", **where, "content_block": opened})
            events += ({"type": "content_block_delta", **where, "delta": one} for one in deltas)
            events.append({"type": "content_block_stop", **where})
        events += (
            {"type": "message_delta", "delta": ending, "usage": reply.get("usage")},
            {"type": "message_stop"},
        )
        return b"".join(map(render_event, events))

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return MessagesStream(context)

    def open_reader(self, context: ReplyContext) -> MessagesReader:  # noqa: ARG002 - chat's needs it
        return MessagesReader()


def _take_apart(block: Json) -> tuple[Json, list[Json]]:
    """Divide a block into its start and the deltas that fill it; a kind without deltas is whole."""
    match block:
        case {"type": "text", "text": str(text)}:
            return {**block, "text": ""}, [{"type": "text_delta", "text": text}]
        case {"type": "thinking", "thinking": str(thinking)}:
            deltas: list[Json] = [{"type": "thinking_delta", "thinking": thinking}]
            if (signature := block.get("signature")) is not None:
                deltas.append({"type": "signature_delta", "signature": signature})
            return {**block, "thinking": "", "signature": ""}, deltas
        case {"type": "tool_use", "input": held}:
            fragment = {"type": "input_json_delta", "partial_json": dump_arguments(held)}
            return {**block, "input": {}}, [fragment]
        case _:
            return block, []


def read_blocks(message: Json) -> list[Json]:
    return [block for block in message["content"] if isinstance(block, dict)]


def dump_arguments(value: object) -> str:
    """Write a tool's input as compact JSON; "" when there is none."""
    return dumps_lenient(value).decode() if value else ""
