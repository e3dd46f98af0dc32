"""Chat upstreams (OpenAI-compatible APIs): asking them, and their JSON replies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gateway.dialects.base import Pipeline
from gateway.dialects.chat.billed import BILLED, check_billed, read_asked
from gateway.dialects.chat.reader import ChatReader, read_completion
from gateway.dialects.chat.stream import DONE, ID_PREFIX, ChatStream, render_chunk, shape_id
from gateway.dialects.chat.usage import (
    carries,
    count_choices_text,
    make_chat_usage,
    maybe_repair_chat_usage,
    read_chat_usage,
)
from gateway.dialects.records import Json, ReplyContext, Target
from gateway.dialects.wire import dumps_lenient, maybe_splice
from gateway.money import Tokens
from gateway.prices import Asked
from gateway.usage import Expected, Reported

OBJECT: Final = "chat.completion"


class ChatUpstream:
    """An `Upstream` with an OpenAI-compatible API."""

    name: Final = "chat"
    path: Final = "/chat/completions"
    default_reasoning: Final = "none"
    requires_limit: Final = False
    passed_headers: Final = ()
    billed: Final = BILLED

    def auth_headers(self, api_key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def ask(self, body: Json, target: Target) -> Json:
        check_billed(body, target)
        body = {**body, "model": target.upstream_model}
        if not target.ask_usage:
            body.pop("stream_options", None)  # this upstream would refuse it
        elif body.get("stream"):
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        return body

    def read_reply(self, text: bytes) -> Json:
        return read_completion(text)

    def find_usage(self, reply: Json) -> Json | None:
        usage = reply.get("usage")
        return usage if isinstance(usage, dict) else None

    def read_asked(self, body: Json, data: bytes) -> Asked:  # noqa: ARG002 - chat marks no caches
        return read_asked(body)

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        return read_chat_usage(reply.get("usage"), reply.get("service_tier"), expected)

    def is_whole(self, reply: Json) -> bool:
        choices = [choice for choice in reply["choices"] if isinstance(choice, dict)]
        return all(choice.get("finish_reason") for choice in choices)

    def has_content(self, reply: Json) -> bool:
        return any(carries(choice, "message") for choice in reply["choices"])

    def count_text(self, reply: Json) -> int:
        return count_choices_text(reply["choices"], "message")

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        """Edit model and id, and repair what breaks the schema; without a usage, tell `tokens`."""
        repaired = _maybe_repair(reply, tokens, context)
        out = None if repaired is not None else _maybe_edit(text, reply, context)
        return out or dumps_lenient(_rewrite(repaired or reply, context))

    def replay_reply(self, reply: Json) -> bytes:
        head = {key: value for key, value in reply.items() if key not in {"choices", "usage"}}
        chunks: list[Json] = []
        for index, choice in enumerate(reply["choices"]):
            if isinstance(choice, dict):
                delta = choice.get("message")
                rest = {key: value for key, value in choice.items() if key != "message"}
                item = {"index": index, "finish_reason": None, **rest, "delta": delta}
                chunks.append({**head, "choices": [item]})
        chunks.append({**head, "choices": [], "usage": reply.get("usage")})
        return b"".join(map(render_chunk, chunks)) + (DONE if self.is_whole(reply) else b"")

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return ChatStream(context)

    def open_reader(self, context: ReplyContext) -> ChatReader:
        return ChatReader(context)


def _maybe_repair(reply: Json, tokens: Tokens, context: ReplyContext) -> Json | None:
    """Return the reply with the fields in place that the schema requires, or None when they are."""
    fixes: Json = {}
    usage = reply.get("usage")
    if reply.get("object") != OBJECT:
        fixes["object"] = OBJECT
    if not isinstance(reply.get("id"), str) or not reply["id"]:
        fixes["id"] = ID_PREFIX + context.request_id
    if not isinstance(usage, dict):
        fixes["usage"] = make_chat_usage(tokens)
    elif (sums := maybe_repair_chat_usage(usage)) is not None:
        fixes["usage"] = sums
    choices = [_repair_choice(index, choice) for index, choice in enumerate(reply["choices"])]
    if any(new is not old for new, old in zip(choices, reply["choices"], strict=True)):
        fixes["choices"] = choices
    return {**reply, **fixes} if fixes else None


def _repair_choice(position: int, choice: Any) -> Any:
    if not isinstance(choice, dict):
        return choice
    message = choice.get("message")
    if not isinstance(choice.get("index"), int):
        choice = {**choice, "index": position}
    if isinstance(message, dict) and message.get("role") != "assistant":
        choice = {**choice, "message": {**message, "role": "assistant"}}
    return choice


def _maybe_edit(text: bytes, reply: Json, context: ReplyContext) -> bytes | None:
    out: bytes | None = text
    if isinstance(model := reply.get("model"), str):
        out = maybe_splice(text, "model", model, context.request.model)
    else:
        out = None
    return out and maybe_splice(out, "id", reply["id"], shape_id(reply["id"]))


def _rewrite(reply: Json, context: ReplyContext) -> Json:
    return {**reply, "id": shape_id(reply["id"]), "model": context.request.model}
