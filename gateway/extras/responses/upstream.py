"""Responses upstreams (OpenAI's Responses API): asking them, and their JSON replies, also as streams."""

from __future__ import annotations

import re
from typing import Final

from gateway.base.money import Tokens
from gateway.base.usage import Expected, Reported
from gateway.dialects.wire.base import EventUpstream
from gateway.dialects.wire.billed import check_fields
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_object, get_text
from gateway.dialects.wire.pipelines import Pipeline
from gateway.dialects.wire.records import Json, ReplyContext, Target
from gateway.extras.responses.history import strip_tools, tag_sealed, untag_items
from gateway.extras.responses.replay import replay_response
from gateway.extras.responses.stream import (
    FAILURES,
    WHOLE,
    ResponsesReader,
    ResponsesStream,
    count_item_text,
    count_tool_calls,
    find_usage,
    is_made,
    make_error,
    maybe_complete_usage,
    read_items,
    read_responses_usage,
)

COUNTED: Final = frozenset(
    {
        *("input", "instructions", "model", "parallel_tool_calls", "reasoning", "text"),
        *("tool_choice", "tools", "truncation"),
    }
)
"""Fields of a request for a count of tokens. OpenAI refuses other fields there."""


class ResponsesUpstream(EventUpstream):
    """An `Upstream` with OpenAI's Responses API."""

    name = "responses"
    reply_name = "a response"
    default_reasoning = "effort"
    find_usage = staticmethod(find_usage)

    def __init__(self, path: str = "/responses", *, is_free: bool = False) -> None:
        """Ask at `path`. `is_free`: the provider charges nothing there, as it only counts tokens."""
        self.path = path
        self._is_free = is_free

    def ask(self, body: Json, target: Target) -> Json:
        if not self._is_free:
            check_fields(body, target)
        body = {**strip_tools(body, target), "model": target.upstream_model}
        if isinstance(items := body.get("input"), list):
            kept = untag_items(items, target.provider_tag, body.get("tools"))
            if not _reasons(target):
                kept = [
                    one for one in kept if type(one) is not dict or one.get("type") != _REASONING
                ]
            body["input"] = kept
        if self._is_free:
            return {name: value for name, value in body.items() if name in COUNTED}
        body.pop("client_metadata", None)  # Codex tells OpenAI of itself; others refuse it
        if body.get("store") is not False:  # else the caller asks for encrypted reasoning itself
            body |= {"store": False} | _include_reasoning(body, target)
        return body

    def check_error(self, reply: Json, /) -> None:
        told = get_object(reply, "response") or reply
        is_failed = told.get("status") in ("failed", "cancelled")
        if is_failed or told.get("error") or get_text(reply, "type") in FAILURES:
            raise make_error(told)

    def check_reply(self, reply: Json) -> bool:
        return type(reply.get("output")) is list

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        calls = count_tool_calls(read_items(reply))
        return read_responses_usage(find_usage(reply), reply.get("service_tier"), calls, expected)

    def is_whole(self, reply: Json) -> bool:
        return get_text(reply, "status") in WHOLE

    def has_content(self, reply: Json) -> bool:
        return any(is_made(item) or count_item_text(item) for item in read_items(reply))

    def count_text(self, reply: Json) -> int:
        return sum(map(count_item_text, read_items(reply)))

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        completed = maybe_complete_usage(reply)
        if completed or context.request.told:
            reply = {**(completed or reply), **context.request.told}
            text = dumps_lenient(reply)
        edited = super().edit_reply(text, reply, context, tokens)
        return tag_sealed(edited, context.provider_tag)

    def replay_reply(self, text: bytes, reply: Json) -> bytes:  # noqa: ARG002
        return replay_response(reply)

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return ResponsesStream(context)

    def open_reader(self, context: ReplyContext) -> ResponsesReader:  # noqa: ARG002 - chat's needs it
        return ResponsesReader()


_REASONING: Final = "reasoning"
_ENCRYPTED: Final = "reasoning.encrypted_content"
_UNREASONING: Final = re.compile(r"(?:.*/)?(?:ft:)?(?:gpt-3|gpt-4|chatgpt-|gpt-5[^/]*-chat)")
"""Matches OpenAI's models that refuse reasoning: "Encrypted content is not supported"."""


def _include_reasoning(body: Json, target: Target) -> Json:
    """Ask for reasoning in a form that can be sent back, since the provider stores none."""
    given = get_list(body, "include")
    if not _reasons(target) or _ENCRYPTED in given:
        return {}
    return {"include": [*given, _ENCRYPTED]}


def _reasons(target: Target) -> bool:
    return target.reasoning != "none" and not _UNREASONING.match(target.upstream_model)
