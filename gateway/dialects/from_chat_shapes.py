"""The objects of a messages reply, with every key the published schema requires. No I/O.

What a chat upstream cannot tell is null, or 0 where a number stands (wire.md §4.2).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from gateway.dialects.base import ReplyContext
from gateway.dialects.jsonbytes import dumps_lenient
from gateway.errors import UpstreamError
from gateway.money import Tokens

MESSAGE_PREFIX: Final = "msg_"
TOOL_USE_PREFIX: Final = "toolu_"

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a message ended; all null while it has not."""

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


def make_text(text: str) -> Json:
    return {"type": "text", "text": text, "citations": None}


def make_thinking(thinking: str) -> Json:
    """No signature: nobody vouches for a chat upstream's reasoning."""
    return {"type": "thinking", "thinking": thinking, "signature": ""}


def make_tool_use(identity: str, name: str, arguments: Json) -> Json:
    return {
        "type": "tool_use",
        "id": identity,
        "name": name,
        "input": arguments,
        "caller": {"type": "direct"},
    }


def make_tool_use_id(context: ReplyContext, position: int) -> str:
    """For an upstream that gives its calls none: the same whenever it is asked."""
    return f"{TOOL_USE_PREFIX}{context.request_id}_{position}"


def make_usage(tokens: Tokens, reported: Json | None) -> Json:
    """A message's usage: what is charged is what the caller is told."""
    creation = {
        "ephemeral_5m_input_tokens": tokens.cache_write,
        "ephemeral_1h_input_tokens": 0,
    }
    return {
        **make_delta_usage(tokens, reported),
        "cache_creation": creation,
        "inference_geo": None,
        "service_tier": None,
    }


def make_delta_usage(tokens: Tokens, reported: Json | None) -> Json:
    """The cumulative usage of a message_delta event, which has fewer keys."""
    return {
        "input_tokens": tokens.input,
        "cache_creation_input_tokens": tokens.cache_write,
        "cache_read_input_tokens": tokens.cached_input,
        "output_tokens": tokens.output,
        "output_tokens_details": _maybe_details(reported),
        "server_tool_use": None,
    }


def _maybe_details(reported: Json | None) -> Json | None:
    details = (reported or {}).get("completion_tokens_details")
    thinking = details.get("reasoning_tokens") if isinstance(details, dict) else None
    if not isinstance(thinking, int) or isinstance(thinking, bool) or thinking < 0:
        return None
    return {"thinking_tokens": thinking}


def map_stop(choice: Json, context: ReplyContext, *, called_tools: bool, refusal: str) -> Stop:
    """A choice's ending (wire.md §5.3); a finish reason that nobody knows is an ordinary end.

    Raises UpstreamError for a choice that ended in an error.
    """
    finish = choice.get("finish_reason")
    check_finish(finish)
    reason = _REASONS.get(finish, "end_turn") if isinstance(finish, str) else "end_turn"
    if refusal:
        return Stop("refusal", explanation=refusal)
    if reason == "end_turn" and called_tools:
        return Stop("tool_use")
    if reason == "end_turn" and (sequence := _maybe_stop_sequence(choice, context)):
        return Stop("stop_sequence", sequence)
    return Stop(reason)


def check_finish(finish: object) -> None:
    """Some gateways (OpenRouter) and Mistral end a choice with `error`."""
    if finish == "error":
        raise UpstreamError("The upstream ended its reply with an error.")


_REASONS: Final = {
    "stop": "end_turn",
    "length": "max_tokens",
    "model_length": "model_context_window_exceeded",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "content_filter": "refusal",
}


def _maybe_stop_sequence(choice: Json, context: ReplyContext) -> str | None:
    """Which of the caller's sequences it was: vLLM tells, OpenAI does not."""
    told = choice.get("stop_reason")
    asked = context.request.body.get("stop_sequences")
    if isinstance(told, str) and isinstance(asked, list) and told in asked:
        return told
    return None


def read_content(content: object) -> tuple[str, str]:
    """Reasoning and text of a content, which at Mistral may be an array of both."""
    if isinstance(content, str):
        return "", content
    thinking = text = ""
    for part in content if isinstance(content, list) else ():
        match part:
            case {"type": "text", "text": str(said)}:
                text += said
            case {"type": "thinking", "thinking": thought}:
                thinking += read_content(thought)[1]
            case _:
                pass  # pictures and references have no place in a messages reply
    return thinking, text


def read_reasoning(message: Json) -> str:
    """The reasoning of a message or delta under either of its names, never twice."""
    reasoning = message.get("reasoning_content") or message.get("reasoning")
    return reasoning if isinstance(reasoning, str) else ""


def render_event(event: Json) -> bytes:
    """One event with its name: the SDKs drop events that have none (wire.md §0.5)."""
    return b"event: " + str(event["type"]).encode() + b"\ndata: " + dumps_lenient(event) + b"\n\n"
