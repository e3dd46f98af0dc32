"""The complete JSON reply of a chat upstream as a message (wire.md §5.3). No I/O."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import Reply, ReplyContext
from gateway.dialects.chat_reply import read_completion
from gateway.dialects.from_chat_shapes import (
    Json,
    make_message,
    make_text,
    make_thinking,
    make_tool_use,
    make_tool_use_id,
    make_usage,
    map_stop,
    read_content,
    read_reasoning,
)
from gateway.dialects.jsonbytes import dumps_lenient, loads_lenient
from gateway.errors import UpstreamError
from gateway.money import Tokens
from gateway.usage import estimate_tokens, read_chat_usage

_CUT: Final = "length"


def read_chat_reply_as_message(body: bytes, context: ReplyContext) -> Reply:
    """The message. Raises UpstreamError when the body is no chat completion."""
    reply = read_completion(body.strip())
    choice = next((item for item in reply["choices"] if isinstance(item, dict)), None)
    message = choice.get("message") if choice else None
    if choice is None or not isinstance(message, dict):
        raise UpstreamError("The upstream's reply has no message in it.")
    usage = reply.get("usage")
    usage = usage if isinstance(usage, dict) else None
    content, text_bytes = _read_blocks(message, choice.get("finish_reason"), context)
    tokens = read_chat_usage(usage, context.limits)
    estimated = tokens is None
    if tokens is None:
        tokens = Tokens(context.input_estimate, output=estimate_tokens(text_bytes))
    stop = map_stop(
        choice,
        context,
        called_tools=any(block["type"] == "tool_use" for block in content),
        refusal=_read_refusal(message),
    )
    out = make_message(context, content, stop, make_usage(tokens, usage))
    return Reply(dumps_lenient(out), tokens, estimated)


def _read_blocks(message: Json, finish: object, context: ReplyContext) -> tuple[list[Json], int]:
    """The content blocks in the order the model made them, and the UTF-8 bytes in them."""
    thinking, text = read_content(message.get("content"))
    thinking = read_reasoning(message) or thinking
    text += _read_refusal(message)
    blocks: list[Json] = []
    if thinking:
        blocks.append(make_thinking(thinking))
    if text:
        blocks.append(make_text(text))
    text_bytes = _count(thinking) + _count(text)
    calls = message.get("tool_calls")
    for position, call in enumerate(calls if isinstance(calls, list) else ()):
        block, size = _read_call(call, position, finish, context)
        blocks.append(block)
        text_bytes += size
    return blocks, text_bytes


def _read_call(call: Any, position: int, finish: object, context: ReplyContext) -> tuple[Json, int]:
    match call:
        case {"function": {"name": str(name)} as function} if name:
            given = function.get("arguments")
        case _:
            raise UpstreamError("The upstream called a tool without naming it.")
    identity = call.get("id")
    if not isinstance(identity, str) or not identity:
        identity = make_tool_use_id(context, position)
    arguments = _read_arguments(given, cut=finish == _CUT)
    size = _count(given) if isinstance(given, str) else len(dumps_lenient(arguments))
    return make_tool_use(identity, name, arguments), size


def _read_arguments(given: object, *, cut: bool) -> Json:
    """The arguments as an object; none at all is an empty one.

    A call cut off by the token limit has none that can be read: the stop reason tells the caller,
    and the reply in front of it, which was paid for, is not lost.
    """
    if isinstance(given, str) and given.strip():
        try:
            given = loads_lenient(given.encode("utf-8", "surrogatepass"))
        except ValueError:
            given = {} if cut else ""
    elif not given:
        given = {}
    if not isinstance(given, dict):
        raise UpstreamError("The upstream called a tool with arguments that are no JSON object.")
    return given


def _read_refusal(message: Json) -> str:
    refusal = message.get("refusal")
    return refusal if isinstance(refusal, str) else ""


def _count(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
