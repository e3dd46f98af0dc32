"""Repairs of chat replies that break OpenAI's schema, in its order; README.md has who breaks it.

    object, id, usage    `maybe_repair_reply` (and created), `chunks.ChunkRepair`; in streams the id and a usage
                         beside choices by `ChatStream`, since templates write them, too
    index                `_repair_choices`, `ChunkRepair`, and what is within:
    finish_reason        `repair_finish`
    message, delta       `repair_message`, `ChunkRepair`: role, content, `tool_calls`, `function_call`
    tool_calls           `content.CallRepair`: index, id, type, name and arguments of each

Whatever conforms comes back as the same object, and its bytes pass.
"""

from __future__ import annotations

from collections.abc import Container
from operator import is_not
from typing import Final

from gateway.base.errors import UpstreamError
from gateway.base.money import Tokens
from gateway.dialects.chat.content import CallRepair
from gateway.dialects.wire.jsonbytes import get_list, get_text
from gateway.dialects.wire.kinds import squeeze
from gateway.dialects.wire.records import Json, ReplyContext
from gateway.dialects.wire.usage import (
    drop_usage,
    find_chunk_usage,
    has_counts,
    make_chat_usage,
    maybe_repair_chat_usage,
    tells,
)

REPLY_OBJECT: Final = "chat.completion"
ID_PREFIX: Final = "chatcmpl-"
"""The beginning of the ids of replies."""
NO_MESSAGE: Final = "The upstream's reply has no message in it."


def maybe_repair_reply(reply: Json, tokens: Tokens, context: ReplyContext) -> Json | None:
    """Return a reply with the fields that the schema requires, or None if it has them already.

    Raises UpstreamError if no choice has a message.
    """
    fixes: Json = {}
    identity, usage, lifted = reply.get("id"), reply.get("usage"), reply
    if type(usage) is not dict and (usage := find_chunk_usage(reply)) is not None:
        choices = [drop_usage(one) for one in get_list(reply, "choices")]
        lifted = {**drop_usage(reply), "choices": choices, "usage": usage}
    if reply.get("object") != REPLY_OBJECT:
        fixes["object"] = REPLY_OBJECT
    if type(identity) is not str or not identity:
        fixes["id"] = ID_PREFIX + context.request_id
    if type(reply.get("created")) is not int:
        fixes["created"] = context.created
    if type(usage) is not dict:
        fixes["usage"] = make_chat_usage(tokens)
    # In nearly all replies the charge agrees with the report, which is then read only once.
    elif not tells(usage, tokens):
        if (sums := maybe_repair_chat_usage(usage)) is not None:
            fixes["usage"] = sums
        elif not has_counts(usage):
            fixes["usage"] = {**usage, **make_chat_usage(tokens)}
    given: list[object] = lifted["choices"]
    repaired = _repair_choices(given, context)
    if any(map(is_not, repaired, given)):
        fixes["choices"] = repaired
    return {**lifted, **fixes} if fixes or lifted is not reply else None


def _repair_choices(given: list[object], context: ReplyContext) -> list[object]:
    """Repair the choices. One without a message gets an empty one, if others have theirs."""
    repaired, lack_messages = list[object](), True
    for number, choice in enumerate(given):
        if type(choice) is not dict:
            repaired.append(choice)
            continue
        one = choice if type(choice.get("index")) is int else {**choice, "index": number}
        message = find_message(one)
        lack_messages = lack_messages and message is None
        told = repair_message(message or {}, context)
        if told is not message:
            one = {**one, "message": told}
        repaired.append(repair_finish(one, context, called=bool(told.get("tool_calls"))))
    if lack_messages:
        raise UpstreamError(NO_MESSAGE)
    return repaired


def find_message(choice: Json) -> Json | None:
    """Return the message of a choice: an empty one if a filter or the reasoning left none, as at Gemini."""
    message = choice.get("message")
    if type(message) is dict:
        return message
    finish = _find_finish(get_text(choice, "finish_reason"))
    return {} if finish in ("content_filter", "length") else None


def repair_finish(choice: Json, context: ReplyContext, *, called: bool) -> Json:
    """Give a choice one of OpenAI's reasons: if and only if it has calls, the one for which clients run them.

    If the caller named the function to call, `stop` is kept: OpenAI itself ends such a reply with it.
    """
    given, body = choice.get("finish_reason"), context.request.body
    if type(given) is not str:
        return choice
    finish = given if given in _REASONS else _find_finish(given)
    is_forced = isinstance(body.get("tool_choice"), dict)
    if called and (finish == "function_call" or (finish == "stop" and not is_forced)):
        finish = "tool_calls"
    elif finish == "tool_calls" and not called and "functions" not in body:
        finish = "stop"  # else agents would repeat the request to get the calls
    return choice if finish == given else {**choice, "finish_reason": finish}


def _find_finish(given: str) -> str:
    """Return OpenAI's word for a finish reason. Gemini appends details: `content_filter: RECITATION`."""
    return _FINISHES.get(squeeze(given.partition(":")[0]), given)


_REASONS: Final = frozenset({"stop", "length", "tool_calls", "content_filter", "function_call"})
"""OpenAI's finish reasons, which nearly all replies have."""
_FINISHES: Final = {
    **dict.fromkeys(("eos", "eostoken", "endturn", "stopsequence", "complete"), "stop"),
    **dict.fromkeys(("maxtokens", "insufficientsystemresource"), "length"),
    "modelcontextwindowexceeded": "length",
    **dict.fromkeys(("sensitive", "safety", "recitation", "blocklist"), "content_filter"),
    **dict.fromkeys(("prohibitedcontent", "guardrailintervened", "refusal"), "content_filter"),
    **dict.fromkeys(("tooluse", "toolcalls"), "tool_calls"),
    "stop": "stop",
    "length": "length",
    "contentfilter": "content_filter",
}
"""OpenAI's finish reasons by the words of Together, TGI, Cohere, DeepSeek, Zhipu, Gemini and Bedrock, some
of which come through relays."""


def repair_message(message: Json, context: ReplyContext) -> Json:
    """Return the message of a reply as the schema has it; the same object if it conforms."""
    fixes: Json = {}
    if message.get("role") != "assistant":
        fixes["role"] = "assistant"
    # Gemini sends no content if all tokens went into reasoning, and clients expect a string.
    if message.get("content") is None and not any(map(message.get, _INSTEAD)):
        fixes["content"] = ""
    calls = get_list(message, "tool_calls")
    if not calls and "function_call" in message:
        calls = list_calls(message, context)
    if calls:
        fixed = CallRepair(context).repair_calls(calls)
        if fixed is not calls:
            fixes["tool_calls"] = fixed
            message = without(message, {"function_call"})
    return {**message, **fixes} if fixes else message


_INSTEAD: Final = ("tool_calls", "function_call", "refusal", "audio")
"""Members that replace a text: beside one of these, OpenAI's own content is null."""


def list_calls(message: Json, context: ReplyContext, **place: int) -> list[object]:
    """List the calls of a message or a delta, with a `function_call` if the caller sent no `functions`."""
    calls, call = get_list(message, "tool_calls"), message.get("function_call")
    if calls or type(call) is not dict or "functions" in context.request.body:
        return calls
    return [{**place, "function": call}]


def without(delta: Json, keys: Container[str]) -> Json:
    return {key: value for key, value in delta.items() if key not in keys}
