"""The complete JSON reply of a messages upstream, for a messages caller. No I/O."""

from __future__ import annotations

from typing import Any

from gateway.dialects.base import Reply, ReplyContext
from gateway.dialects.from_messages_ending import is_error, make_failure, measure_reply
from gateway.dialects.jsonbytes import dumps_lenient, loads_lenient, maybe_splice
from gateway.errors import UpstreamError

Json = dict[str, Any]


def read_messages_reply(body: bytes, context: ReplyContext) -> Reply:
    """The upstream's bytes with the model's name edited.

    Raises UpstreamError when the body is no message, or is an error in a 200.
    """
    text = body.strip()
    message = read_message(text)
    tokens, estimated = measure_reply(
        message.get("usage") if isinstance(message.get("usage"), dict) else None,
        count_message_text(message),
        context,
        complete=True,
    )
    model = message.get("model")
    out = (
        maybe_splice(text, "model", model, context.request.model)
        if isinstance(model, str)
        else None
    )
    return Reply(
        out or dumps_lenient({**message, "model": context.request.model}), tokens, estimated
    )


def read_message(text: bytes) -> Json:
    """Raises UpstreamError when it is no message."""
    try:
        message = loads_lenient(text)
    except ValueError as error:
        raise UpstreamError("The upstream's reply is not JSON.") from error
    if isinstance(message, dict) and is_error(message):
        raise make_failure(message)
    if not isinstance(message, dict) or not isinstance(message.get("content"), list):
        raise UpstreamError("The upstream's reply is not a message.")
    return message


def count_message_text(message: Json) -> int:
    """UTF-8 bytes of text, thinking and tool input in a message."""
    total = 0
    for block in message["content"]:
        if isinstance(block, dict):
            texts = (block.get("text"), block.get("thinking"))
            total += sum(
                len(text.encode("utf-8", "surrogatepass"))
                for text in texts
                if isinstance(text, str)
            )
            total += len(dumps_lenient(block["input"])) if "input" in block else 0
    return total
