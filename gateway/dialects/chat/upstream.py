"""Chat upstreams (OpenAI-compatible APIs): asking them, and their JSON replies."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from operator import is_not
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
from gateway.usage import Expected, Reported

OBJECT: Final = "chat.completion"


class ChatUpstream:
    """An `Upstream` with an OpenAI-compatible API."""

    name: Final = "chat"
    path: Final = "/chat/completions"
    models_path: Final = "/models"
    default_reasoning: Final = "none"
    requires_limit: Final = False
    passed_headers: Final = ()
    billed: Final = BILLED
    read_asked = staticmethod(read_asked)
    read_reply = staticmethod(read_completion)

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

    def find_usage(self, reply: Json) -> Json | None:
        usage = reply.get("usage")
        return usage if isinstance(usage, dict) else None

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        return read_chat_usage(reply.get("usage"), reply.get("service_tier"), expected)

    def is_whole(self, reply: Json) -> bool:
        for choice in reply["choices"]:
            if type(choice) is dict and not choice.get("finish_reason"):
                return False
        return True

    def has_content(self, reply: Json) -> bool:
        return any(carries(choice, "message") for choice in reply["choices"])

    def count_text(self, reply: Json) -> int:
        return count_choices_text(reply["choices"], "message")

    def edit_reply(self, text: bytes, reply: Json, context: ReplyContext, tokens: Tokens) -> bytes:
        """Edit model and id, and repair what breaks the schema; without a usage, tell `tokens`."""
        repaired = _maybe_repair(reply, tokens, context)
        wanted, model = repaired or reply, reply.get("model")
        identity, ours = shape_id(wanted["id"]), context.request.model
        out: bytes | None = None
        if repaired is None and type(model) is str:
            out = maybe_splice(text, "model", model, ours)
            if out and identity != reply["id"]:
                out = maybe_splice(out, "id", reply["id"], identity)
        return out or dumps_lenient({**wanted, "id": identity, "model": ours})

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
    identity, usage = reply.get("id"), reply.get("usage")
    if reply.get("object") != OBJECT:
        fixes["object"] = OBJECT
    if type(identity) is not str or not identity:
        fixes["id"] = ID_PREFIX + context.request_id
    if type(usage) is not dict:
        fixes["usage"] = make_chat_usage(tokens)
    elif (sums := maybe_repair_chat_usage(usage)) is not None:
        fixes["usage"] = sums
    choices = [*map(_repair_choice, count(), reply["choices"])]
    if any(map(is_not, choices, reply["choices"])):
        fixes["choices"] = choices
    return {**reply, **fixes} if fixes else None


def _repair_choice(position: int, choice: Any) -> Any:
    if type(choice) is not dict:
        return choice
    message = choice.get("message")
    if type(choice.get("index")) is not int:
        choice = {**choice, "index": position}
    if type(message) is dict and message.get("role") != "assistant":
        choice = {**choice, "message": {**message, "role": "assistant"}}
    return choice
