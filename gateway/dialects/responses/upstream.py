"""Responses upstreams (OpenAI's Responses API): asking them, and their JSON replies, also as streams."""

from __future__ import annotations

import re
from itertools import count
from typing import Any, Final

from gateway.dialects.base import EventUpstream, Pipeline
from gateway.dialects.records import Json, ReplyContext, Target
from gateway.dialects.responses.history import strip_tools, tag_sealed, untag_items
from gateway.dialects.responses.stream import (
    WHOLE,
    ResponsesReader,
    ResponsesStream,
    count_item_text,
    count_tool_calls,
    find_usage,
    is_made,
    make_error,
    read_items,
    read_responses_usage,
)
from gateway.dialects.wire.billed import check_fields
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_text
from gateway.dialects.wire.sse import render_event
from gateway.money import Tokens
from gateway.usage import Expected, Reported


def replay_response(response: Json) -> bytes:
    """Write the events of a response, in their order, numbered."""
    begun = {**response, "status": "in_progress", "output": [], "usage": None}
    status = get_text(response, "status") or "incomplete"
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    for index, item in enumerate(read_items(response)):
        events += _replay_item(index, item)
    if status in ("completed", "incomplete"):
        events.append({"type": f"response.{status}", "response": response})
    numbers = count()
    return b"".join(
        render_event({"type": one["type"], "sequence_number": next(numbers), **one})
        for one in events
    )


def _replay_item(index: int, item: Json) -> list[Json]:
    where = {"output_index": index, "item_id": get_text(item, "id")}
    deltas: list[Json] = []
    empty = {**item, "status": "in_progress"}
    match item:
        case {"type": "message", "content": list(parts)}:
            empty["content"] = []
            for number, part in enumerate(parts):
                deltas += _replay_part({**where, "content_index": number}, part)
        case {"type": "reasoning"}:
            empty = {**item, "summary": []}
            for number, part in enumerate(get_list(item, "summary")):
                deltas += _replay_summary({**where, "summary_index": number}, part)
        case {"type": "function_call", "arguments": str(said)}:
            empty["arguments"] = ""
            kind, done = "response.function_call_arguments", {"arguments": said}
            deltas = _say(kind, where, said, {**done, "name": get_text(item, "name")})
        case {"type": "custom_tool_call", "input": str(said)}:
            empty["input"] = ""
            deltas = _say("response.custom_tool_call_input", where, said, {"input": said})
        case _:
            pass
    at = {"output_index": index}
    return [
        {"type": "response.output_item.added", **at, "item": empty},
        *deltas,
        {"type": "response.output_item.done", **at, "item": item},
    ]


def _say(kind: str, where: Json, said: str, done: Json) -> list[Json]:
    """Write a text as one delta and its end."""
    return [
        {"type": f"{kind}.delta", **where, "delta": said},
        {"type": f"{kind}.done", **where, **done},
    ]


def _replay_part(where: Json, part: Any) -> list[Json]:
    match part:
        case {"type": "output_text", "text": str(text)}:
            empty = {**part, "text": "", "annotations": []}
            said = _say("response.output_text", {**where, "logprobs": []}, text, {"text": text})
        case {"type": "refusal", "refusal": str(text)}:
            empty = {**part, "refusal": ""}
            said = _say("response.refusal", where, text, {"refusal": text})
        case dict():
            empty, said = part, []
        case _:
            return []
    return [
        {"type": "response.content_part.added", **where, "part": empty},
        *said,
        {"type": "response.content_part.done", **where, "part": part},
    ]


def _replay_summary(where: Json, part: Any) -> list[Json]:
    match part:
        case {"text": str(text)}:
            kind = "response.reasoning_summary"
            return [
                {"type": f"{kind}_part.added", **where, "part": {**part, "text": ""}},
                *_say(f"{kind}_text", where, text, {"text": text}),
                {"type": f"{kind}_part.done", **where, "part": part},
            ]
        case _:
            return []


COUNTED: Final = frozenset(
    {
        *("input", "instructions", "model", "parallel_tool_calls", "reasoning", "text"),
        *("tool_choice", "tools", "truncation"),
    }
)
"""Fields of a request for a count of tokens: others are refused there."""


class ResponsesUpstream(EventUpstream):
    """An `Upstream` with OpenAI's Responses API."""

    name = "responses"
    reply_name = "a response"
    default_reasoning = "effort"

    def __init__(self, path: str = "/responses", *, is_free: bool = False) -> None:
        """Ask at `path`. `is_free`: the provider charges nothing there, as it only counts tokens."""
        self.path = path
        self._is_free = is_free

    def ask(self, body: Json, target: Target) -> Json:
        if not self._is_free:
            check_fields(body, target)
        body = {**strip_tools(body, target), "model": target.upstream_model}
        if isinstance(items := body.get("input"), list):
            kept = untag_items(items, target.provider_tag)
            if not _reasons(target):
                kept = [
                    one for one in kept if type(one) is not dict or one.get("type") != _REASONING
                ]
            body["input"] = kept
        # A count refuses every other field.
        if self._is_free:
            return {name: value for name, value in body.items() if name in COUNTED}
        body.pop("client_metadata", None)  # Codex tells OpenAI of itself; others refuse the field
        if body.get("store") is not False:  # else the caller knows what it has to send again
            body |= {"store": False} | _include_reasoning(body, target)
        return body

    def check_error(self, reply: Json, /) -> None:
        if reply.get("error") or reply.get("status") in ("failed", "cancelled"):
            raise make_error(reply)

    def check_reply(self, reply: Json) -> bool:
        return type(reply.get("output")) is list

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

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        if told := context.request.told:
            reply = {**reply, **told}
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
    """Ask for reasoning in a form that can be sent again, as the provider keeps none of it."""
    given = get_list(body, "include")
    if not _reasons(target) or _ENCRYPTED in given:
        return {}
    return {"include": [*given, _ENCRYPTED]}


def _reasons(target: Target) -> bool:
    return target.reasoning != "none" and not _UNREASONING.match(target.upstream_model)
