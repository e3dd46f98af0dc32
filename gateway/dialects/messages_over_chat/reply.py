"""A chat completion as a message: its blocks, its ending and its usage, with every key of the schema.

What a chat upstream cannot tell is null, or 0 where a number stands: strict readers of Anthropic's
published schema want the keys all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.chat.parts import move_source, read_sources
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.chat.stream import check_finish, read_choice
from gateway.dialects.chat.usage import list_media, read_content, read_reasoning
from gateway.dialects.messages.history import read_arguments, wrap_arguments
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.errors import UndeliverableReply
from gateway.usage import read_count

MESSAGE_PREFIX: Final = "msg_"
TOOL_USE_PREFIX: Final = "toolu_"
_CUT: Final = "length"
MAX_CITED_CHARS: Final = 150
"""Characters of a `cited_text` (Anthropic's documentation of web search)."""


def translate_reply(reply: Json, context: ReplyContext, usage: Usage) -> Json:
    """Write a message of what the upstream said."""
    choice, message = read_choice(reply)
    content = _read_blocks(message, choice.get("finish_reason"), context)
    stop = map_stop(
        choice,
        context,
        called_tools=any(block["type"] == "tool_use" for block in content),
        refusal=get_text(message, "refusal"),
    )
    return make_message(context, content, stop, make_usage(usage))


def _read_blocks(message: Json, finish: object, context: ReplyContext) -> list[Json]:
    """Write the content blocks in the order the model made them."""
    thinking, text = read_content(message.get("content"))
    thinking = read_reasoning(message) or thinking
    check_media(message)
    citations = make_citations(read_sources(message), text)
    text += get_text(message, "refusal")
    state = StateCollector(context.provider_tag)
    state.add(message)
    signature = state.take()
    blocks: list[Json] = []
    if thinking or signature:
        blocks.append(make_thinking(thinking, signature or state.take_any()))
    if text:
        blocks.append(make_text(text, citations))
    calls = enumerate(get_list(message, "tool_calls"))
    return blocks + [_read_call(call, position, finish, context) for position, call in calls]


def _read_call(call: Any, position: int, finish: object, context: ReplyContext) -> Json:
    match call:
        case {"function": {"name": str(name)} as function} if name:
            given = function.get("arguments")
        case _:
            raise UndeliverableReply("The upstream called a tool without naming it.")
    identity = call.get("id")
    if not isinstance(identity, str) or not identity:
        identity = make_tool_use_id(context, position)
    return make_tool_use(identity, name, _read_arguments(given, cut=finish == _CUT))


def _read_arguments(given: object, *, cut: bool) -> Json:
    """Read the arguments as an object; none at all is an empty one.

    A call that the token limit cut off has none that can be read. It gets none: the stop reason
    tells the caller, and the reply before it, which is paid for, is not lost.
    """
    if not isinstance(given, str):
        return wrap_arguments(given) if given else {}
    if not given.strip():
        return {}
    read = read_arguments(given)
    return {} if read is None and cut else wrap_arguments(given if read is None else read)


@dataclass(frozen=True, slots=True)
class Stop:
    """The reason why a message ended; all null while it has not."""

    reason: str | None = None
    sequence: str | None = None
    explanation: str | None = None
    """The upstream's words of refusal."""

    @property
    def fields(self) -> Json:
        details = None
        if self.explanation:
            details = {"type": "refusal", "category": None, "explanation": self.explanation}
        return {
            "stop_reason": self.reason,
            "stop_sequence": self.sequence,
            "stop_details": details,
            "container": None,
        }


def make_message(context: ReplyContext, content: list[Json], stop: Stop, usage: Json) -> Json:
    return {
        "id": MESSAGE_PREFIX + context.request_id,
        "type": "message",
        "role": "assistant",
        "model": context.request.model,
        "content": content,
        **stop.fields,
        "usage": usage,
    }


def make_text(text: str, citations: Sequence[Json] = ()) -> Json:
    return {"type": "text", "text": text, "citations": citations or None}


def make_citations(sources: list[Json], text: str, start: int = 0) -> list[Json]:
    """Write the citations of a text block that begins at `start` of the whole content.

    Nobody has the index that the vendor would encrypt.
    """
    return [_make_citation(move_source(source, -start), text) for source in sources]


def _make_citation(source: Json, text: str) -> Json:
    begin, end = source["start_index"], source["end_index"]
    return {
        "type": "web_search_result_location",
        "cited_text": text[begin : min(end, begin + MAX_CITED_CHARS)],
        "encrypted_index": "",
        "title": source["title"],
        "url": source["url"],
    }


def check_media(message: Json) -> None:
    """Raise UndeliverableReply for what a message has no place for."""
    if list_media(message):
        raise UndeliverableReply("The model made an image or audio, which a message cannot hold.")


def make_thinking(thinking: str, signature: str = "") -> Json:
    return {"type": "thinking", "thinking": thinking, "signature": signature}


def make_tool_use(identity: str, name: str, arguments: Json) -> Json:
    return {
        "type": "tool_use",
        "id": identity,
        "name": name,
        "input": arguments,
        "caller": {"type": "direct"},
    }


def make_tool_use_id(context: ReplyContext, position: int) -> str:
    """Make an id for a call whose upstream gives none: for one call always the same."""
    return f"{TOOL_USE_PREFIX}{context.request_id}_{position}"


def make_usage(usage: Usage) -> Json:
    """Write a message's usage: the caller is told what is charged."""
    creation = {
        "ephemeral_5m_input_tokens": usage.tokens.cache_write,
        "ephemeral_1h_input_tokens": usage.tokens.cache_write_1h,
    }
    return {
        **make_delta_usage(usage),
        "cache_creation": creation,
        "inference_geo": None,
        "service_tier": None,
    }


def make_delta_usage(usage: Usage) -> Json:
    """Write the cumulative usage of a message_delta event, which has fewer keys."""
    tokens = usage.tokens
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write + tokens.cache_write_1h,
        "cache_read_input_tokens": tokens.cached_input,
        "output_tokens": tokens.output,
        "output_tokens_details": _maybe_details(usage.reported),
        "server_tool_use": None,
    }


def _maybe_details(reported: Json | None) -> Json | None:
    details = get_object(reported or {}, "completion_tokens_details")
    thinking = read_count(details.get("reasoning_tokens"))
    return None if thinking is None else {"thinking_tokens": thinking}


def map_stop(choice: Json, context: ReplyContext, *, called_tools: bool, refusal: str) -> Stop:
    """Map a choice's ending; an unknown finish reason is an ordinary end.

    Raises UpstreamError for a choice that ended in an error.
    """
    check_finish(choice.get("finish_reason"))
    reason = _REASONS.get(get_text(choice, "finish_reason"), "end_turn")
    if refusal:
        return Stop("refusal", explanation=refusal)
    if reason == "end_turn" and called_tools:
        return Stop("tool_use")
    if reason == "end_turn" and (sequence := _maybe_stop_sequence(choice, context)):
        return Stop("stop_sequence", sequence)
    return Stop(reason)


_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "model_length": "model_context_window_exceeded",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


def _maybe_stop_sequence(choice: Json, context: ReplyContext) -> str | None:
    """Find which of the caller's sequences it was: vLLM tells, OpenAI does not."""
    told, asked = get_text(choice, "stop_reason"), get_list(context.request.body, "stop_sequences")
    return told if told in asked else None
