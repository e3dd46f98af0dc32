"""Messages written for translations, whole or as they begin, and their blocks.

Strict readers of Anthropic's schema require all keys: what another dialect's reply does not have is null.
"""

from __future__ import annotations

from collections.abc import Sequence

from gateway.dialects.wire.records import Json, ReplyContext


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
    return {"type": "text", "text": text, "citations": citations or None}


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
