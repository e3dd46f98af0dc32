"""Messages written for translations: whole or at their beginning, with blocks and usage.

Strict readers of Anthropic's schema require all keys, so members that the other dialect lacks are null.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.base.usage import read_count
from gateway.dialects.wire.jsonbytes import get_object
from gateway.dialects.wire.records import Json, ReplyContext, ReplyUsage


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
        "id": f"msg_{context.request_id}",
        "type": "message",
        "role": "assistant",
        "model": context.request.model,
        "content": content,
        **stop,
        "usage": usage,
    }


def make_text(text: str, citations: Sequence[Json] = ()) -> Json:
    # Anthropic's schema allows null citations, but Anthropic omits them, and Vercel's AI SDK refuses null.
    return {"type": "text", "text": text, **({"citations": citations} if citations else {})}


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


def make_usage(usage: ReplyUsage) -> Json:
    """Write a message's usage as it is charged."""
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


def make_delta_usage(usage: ReplyUsage) -> Json:
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
