"""Chat upstreams (OpenAI-compatible APIs): asking them, and their JSON replies."""

from __future__ import annotations

from itertools import count
from operator import is_not
from typing import Any, Final

from gateway.dialects.base import Pipeline, Upstream
from gateway.dialects.chat.repair import (
    carries,
    count_choices_text,
    find_chunk_usage,
    lift_usage,
    make_chat_usage,
    maybe_repair_chat_usage,
    tells,
)
from gateway.dialects.chat.state import write_history
from gateway.dialects.chat.stream import (
    DONE,
    ID_PREFIX,
    ChatReader,
    ChatStream,
    check_error,
    shape_id,
)
from gateway.dialects.records import Json, ReplyContext, Target
from gateway.dialects.wire.billed import check_fields, check_tools
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, maybe_splice
from gateway.dialects.wire.sse import render_data
from gateway.dialects.wire.usage import hide_bill, read_openai_usage
from gateway.money import Tokens
from gateway.usage import Expected, Reported

OBJECT: Final = "chat.completion"


class ChatUpstream(Upstream):
    """An `Upstream` with an OpenAI-compatible API."""

    name = "chat"
    path = "/chat/completions"
    reply_name = "a chat completion"

    def check_reply(self, reply: Json) -> bool:
        check_error(reply)
        return dict in map(type, get_list(reply, "choices"))

    def ask(self, body: Json, target: Target) -> Json:
        check_fields(body, target)
        check_tools(body, target)
        body = {**body, "model": target.upstream_model}
        has_tools = bool(body.get("tools"))
        if "messages" in body:
            body["messages"] = write_history(body["messages"], target, has_tools=has_tools)
        if not target.ask_usage:
            body.pop("stream_options", None)  # this upstream would refuse it
        elif body.get("stream"):
            body["stream_options"] = {**(body.get("stream_options") or {}), "include_usage": True}
        return body

    def find_usage(self, reply: Json) -> Json | None:
        return find_chunk_usage(reply)

    def read_report(self, reply: Json, expected: Expected) -> Reported:
        return read_openai_usage(self.find_usage(reply), reply.get("service_tier"), expected)

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
        shown = hide_bill(reply, text)
        repaired = _maybe_repair(shown, tokens, context) or (None if shown is reply else shown)
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
        # A reply that is cut short must not look whole as a stream.
        return b"".join(map(render_data, chunks)) + (DONE if self.is_whole(reply) else b"")

    def open_stream(self, context: ReplyContext) -> Pipeline:
        return ChatStream(context)

    def open_reader(self, context: ReplyContext) -> ChatReader:
        return ChatReader(context)


def _maybe_repair(reply: Json, tokens: Tokens, context: ReplyContext) -> Json | None:
    """Return the reply with the fields in place that the schema requires, or None when they are."""
    fixes: Json = {}
    identity, lifted = reply.get("id"), lift_usage(reply)
    usage = lifted.get("usage")
    if reply.get("object") != OBJECT:
        fixes["object"] = OBJECT
    if type(identity) is not str or not identity:
        fixes["id"] = ID_PREFIX + context.request_id
    if type(usage) is not dict:
        fixes["usage"] = make_chat_usage(tokens)
    # What is charged agrees with the report in nearly all replies, which then is read only once.
    elif not tells(usage, tokens) and (sums := maybe_repair_chat_usage(usage)) is not None:
        fixes["usage"] = sums
    choices = [*map(_repair_choice, count(), lifted["choices"])]
    if any(map(is_not, choices, lifted["choices"])):
        fixes["choices"] = choices
    return {**lifted, **fixes} if fixes or lifted is not reply else None


def _repair_choice(position: int, choice: Any) -> Any:
    if type(choice) is not dict:
        return choice
    message = choice.get("message")
    if type(choice.get("index")) is not int:
        choice = {**choice, "index": position}
    if type(message) is dict and message.get("role") != "assistant":
        choice = {**choice, "message": {**message, "role": "assistant"}}
    return choice
