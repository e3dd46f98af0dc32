"""A chat completion as a message: its blocks, its ending and its usage, with every key of the schema.

What a chat upstream cannot tell is null, or 0 where a number stands: strict readers of Anthropic's
published schema want the keys all the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from gateway.dialects.chat.parts import move_source
from gateway.dialects.chat.state import StateCollector
from gateway.dialects.chat.stream import check_finish, read_choice
from gateway.dialects.messages.history import read_arguments, wrap_arguments
from gateway.dialects.records import Json, ReplyContext, Usage
from gateway.dialects.to_chat import read_call, read_said
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.errors import UndeliverableReply
from gateway.usage import read_count

MESSAGE_PREFIX: Final = "msg_"
TOOL_USE_PREFIX: Final = "toolu_"
_CUT: Final = "length"
_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "model_length": "model_context_window_exceeded",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}
"""Stop reasons by finish reason; an unknown one counts as an ordinary end."""
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
    said, state = read_said(message), StateCollector(context.provider_tag)
    if said.media:
        raise refuse_media()
    state.add(message)
    signature = state.take()
    blocks: list[Json] = []
    if said.reasoning or signature:
        blocks.append(make_thinking(said.reasoning, signature or state.take_any()))
    if text := said.text + said.refusal:
        blocks.append(make_text(text, make_citations(said.sources, said.text)))
    for position, call in enumerate(said.calls):
        identity, name, given = read_call(call)
        arguments = _read_arguments(given, cut=finish == _CUT)
        identity = identity or make_tool_use_id(context, position)
        blocks.append(make_tool_use(identity, name, arguments))
    return blocks


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


def make_stop(reason: str | None, sequence: str | None = None, explanation: str = "") -> Json:
    """Write why a message ended, or nulls while it has not; `explanation` is that of a refusal."""
    details = {"type": "refusal", "category": None, "explanation": explanation}
    return {
        "stop_reason": reason,
        "stop_sequence": sequence,
        "stop_details": details if explanation else None,
        "container": None,
    }


def make_message(context: ReplyContext, content: list[Json], stop: Json, usage: Json) -> Json:
    return {
        "id": MESSAGE_PREFIX + context.request_id,
        "type": "message",
        "role": "assistant",
        "model": context.request.model,
        "content": content,
        **stop,
        "usage": usage,
    }


def make_text(text: str, citations: Sequence[Json] = ()) -> Json:
    return {"type": "text", "text": text, "citations": citations or None}


def make_citations(sources: list[Json], text: str, start: int = 0) -> list[Json]:
    """Write the citations of a text block that begins at `start` of the whole content."""
    return [_make_citation(move_source(source, -start), text) for source in sources]


def _make_citation(source: Json, text: str) -> Json:
    begin, end = source["start_index"], source["end_index"]
    return {
        "type": "web_search_result_location",
        "cited_text": text[begin : min(end, begin + MAX_CITED_CHARS)],
        "encrypted_index": "",  # nobody but the vendor has the index that it would encrypt
        "title": source["title"],
        "url": source["url"],
    }


def refuse_media() -> UndeliverableReply:
    return UndeliverableReply("The model made an image or audio, which a message cannot hold.")


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
    details = get_object(usage.reported or {}, "completion_tokens_details")
    thinking = read_count(details.get("reasoning_tokens"))
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write + tokens.cache_write_1h,
        "cache_read_input_tokens": tokens.cached_input,
        "output_tokens": tokens.output,
        "output_tokens_details": None if thinking is None else {"thinking_tokens": thinking},
        "server_tool_use": None,
    }


def map_stop(choice: Json, context: ReplyContext, *, called_tools: bool, refusal: str) -> Json:
    """Map a choice's ending. Raises UpstreamError for a choice that ended in an error."""
    check_finish(choice.get("finish_reason"))
    reason = _REASONS.get(get_text(choice, "finish_reason"), "end_turn")
    if refusal:
        return make_stop("refusal", explanation=refusal)
    if reason == "end_turn" and called_tools:
        return make_stop("tool_use")
    # vLLM tells which of the caller's sequences it was, OpenAI does not.
    told, asked = get_text(choice, "stop_reason"), get_list(context.request.body, "stop_sequences")
    if reason == "end_turn" and told and told in asked:
        return make_stop("stop_sequence", told)
    return make_stop(reason)
