"""The complete JSON reply of a chat upstream, for a chat caller (design.md §4). No I/O."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import Reply, ReplyContext
from gateway.dialects.chat_stream import DONE, ID_PREFIX, count_message_text
from gateway.dialects.jsonbytes import dumps_lenient, loads_lenient, maybe_splice
from gateway.dialects.upstream_errors import read_error
from gateway.errors import UpstreamError
from gateway.money import Tokens
from gateway.usage import (
    estimate_tokens,
    make_chat_usage,
    maybe_repair_chat_usage,
    read_chat_usage,
)

OBJECT: Final = "chat.completion"
_UNSAID: Final = "The upstream answered with an error."

Json = dict[str, Any]


def read_chat_reply(body: bytes, context: ReplyContext) -> Reply:
    """The upstream's bytes with model and id edited; what breaks spec 2.3 and 2.4 repaired.

    Raises UpstreamError when the body is no chat completion, or is an error in a 200.
    """
    text = body.strip()
    reply = read_completion(text)
    usage = reply.get("usage")
    usage = usage if isinstance(usage, dict) else None
    tokens = read_chat_usage(usage, context.limits)
    estimated = tokens is None
    if tokens is None:
        tokens = Tokens(context.input_estimate, output=estimate_tokens(_count_text(reply)))
    repaired = _maybe_repair(reply, usage, tokens, context)
    out = None if repaired is not None else _maybe_edit(text, reply, context)
    return Reply(out or dumps_lenient(_rewrite(repaired or reply, context)), tokens, estimated)


def replay_chat_reply(body: bytes) -> bytes:
    """A JSON completion as the events of a stream: an upstream may ignore `stream`.

    Raises UpstreamError as `read_chat_reply` does.
    """
    reply = read_completion(body.strip())
    head = {key: value for key, value in reply.items() if key not in {"choices", "usage"}}
    chunks: list[Json] = []
    for index, choice in enumerate(reply["choices"]):
        if isinstance(choice, dict):
            delta = choice.get("message")
            finish = choice.get("finish_reason") or "stop"
            rest = {key: value for key, value in choice.items() if key != "message"}
            item = {"index": index, **rest, "delta": delta, "finish_reason": finish}
            chunks.append({**head, "choices": [item]})
    chunks.append({**head, "choices": [], "usage": reply.get("usage")})
    return b"".join(b"data: " + dumps_lenient(chunk) + b"\n\n" for chunk in chunks) + DONE


def read_completion(text: bytes) -> Json:
    try:
        reply = loads_lenient(text)
    except ValueError as error:
        raise UpstreamError("The upstream's reply is not JSON.") from error
    if isinstance(reply, dict) and (reply.get("error") or reply.get("object") == "error"):
        raise UpstreamError(read_error(reply).message or _UNSAID)
    if not isinstance(reply, dict) or not isinstance(reply.get("choices"), list):
        raise UpstreamError("The upstream's reply is not a chat completion.")
    return reply


def _maybe_repair(
    reply: Json, usage: Json | None, tokens: Tokens, context: ReplyContext
) -> Json | None:
    """The reply with the spec's required fields in place, or None when they are."""
    fixes: Json = {}
    if reply.get("object") != OBJECT:
        fixes["object"] = OBJECT
    if not isinstance(reply.get("id"), str) or not reply["id"]:
        fixes["id"] = ID_PREFIX + context.request_id
    if usage is None:
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
    return out and maybe_splice(out, "id", reply["id"], _shape_id(reply["id"]))


def _rewrite(reply: Json, context: ReplyContext) -> Json:
    return {**reply, "id": _shape_id(reply["id"]), "model": context.request.model}


def _shape_id(identity: str) -> str:
    return identity if identity.startswith(ID_PREFIX) else ID_PREFIX + identity


def _count_text(reply: Json) -> int:
    messages = [item.get("message") for item in reply["choices"] if isinstance(item, dict)]
    return sum(count_message_text(message) for message in messages if isinstance(message, dict))
