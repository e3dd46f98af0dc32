"""Responses upstreams (OpenAI's Responses API): asking them, and their JSON replies."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from gateway.dialects.base import Pipeline
from gateway.dialects.records import Json, Reasoning, ReplyContext, Target
from gateway.dialects.responses.reader import WHOLE, ResponsesReader, read_response
from gateway.dialects.responses.replay import replay_response
from gateway.dialects.responses.sealed import tag_sealed, untag_items
from gateway.dialects.responses.stream import ResponsesStream
from gateway.dialects.responses.stripped import strip_tools
from gateway.dialects.responses.usage import (
    count_item_text,
    count_tool_calls,
    find_usage,
    is_made,
    read_items,
    read_responses_usage,
)
from gateway.dialects.wire.billed import check_fields
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_text, maybe_splice
from gateway.dialects.wire.usage import hide_bill
from gateway.money import Tokens
from gateway.usage import Expected, Reported

COUNTED: Final = frozenset(
    {
        "input",
        "instructions",
        "model",
        "parallel_tool_calls",
        "reasoning",
        "text",
        "tool_choice",
        "tools",
        "truncation",
    }
)
"""Fields of a request for a count of tokens: others are refused there."""


@dataclass(frozen=True, slots=True)
class ResponsesUpstream:
    """An `Upstream` with OpenAI's Responses API."""

    name: ClassVar = "responses"
    default_reasoning: ClassVar[Reasoning] = "effort"
    requires_limit: ClassVar = False
    passed_headers: ClassVar = ()
    models_path: ClassVar = "/models"
    read_reply = staticmethod(read_response)
    replay_reply = staticmethod(replay_response)

    path: str = "/responses"
    """Another one for requests that are asked in the same way, such as a count of tokens."""
    is_free: bool = False
    """The provider charges nothing for these requests: they are counts of tokens."""

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def ask(self, body: Json, target: Target) -> Json:
        if not self.is_free:
            check_fields(body, target)
        body = {**strip_tools(body, target), "model": target.upstream_model}
        if isinstance(items := body.get("input"), list):
            kept = untag_items(items, target.provider_tag)
            if not _reasons(target):
                kept = [
                    one for one in kept if type(one) is not dict or one.get("type") != _REASONING
                ]
            body["input"] = kept
        if self.is_free:
            return {name: value for name, value in body.items() if name in COUNTED}
        body.pop("client_metadata", None)  # Codex tells OpenAI of itself; others refuse the field
        if body.get("store") is not False:  # else the caller knows what it has to send again
            body |= {"store": False} | _include_reasoning(body, target)
        return body

    def find_usage(self, reply: Json) -> Json | None:
        return find_usage(reply)

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        calls = count_tool_calls(read_items(reply))
        return read_responses_usage(find_usage(reply), reply.get("service_tier"), calls, expected)

    def is_whole(self, reply: Json) -> bool:
        return get_text(reply, "status") in WHOLE

    def has_content(self, reply: Json) -> bool:
        return any(is_made(item) or count_item_text(item) for item in read_items(reply))

    def count_text(self, reply: Json) -> int:
        return sum(map(count_item_text, read_items(reply)))

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:  # noqa: ARG002 - a response without a usage stays so
        shown, ours = hide_bill(reply, text), context.request.model
        model = reply.get("model") if shown is reply else None
        out = maybe_splice(text, "model", model, ours) if type(model) is str else None
        return tag_sealed(out or dumps_lenient({**shown, "model": ours}), context.provider_tag)

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return ResponsesStream(context)

    def open_reader(self, context: ReplyContext) -> ResponsesReader:  # noqa: ARG002 - chat's needs it
        return ResponsesReader()


_REASONING: Final = "reasoning"
_ENCRYPTED: Final = "reasoning.encrypted_content"
_UNREASONING: Final = re.compile(r"(?:.*/)?(?:ft:)?(?:gpt-3|gpt-4|chatgpt-|gpt-5[^/]*-chat)")
"""Matches OpenAI's models that refuse reasoning: "Encrypted content is not supported"."""


def _include_reasoning(body: Json, target: Target) -> Json:
    """Ask for reasoning in a form that can be sent again, as the provider keeps none of it."""
    given = get_list(body, "include")
    if not _reasons(target) or _ENCRYPTED in given:
        return {}
    return {"include": [*given, _ENCRYPTED]}


def _reasons(target: Target) -> bool:
    return target.reasoning != "none" and not _UNREASONING.match(target.upstream_model)
