"""How a messages reply ended, in chat's words: finish reason, usage, refusal, failure. No I/O."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import ReplyContext
from gateway.dialects.upstream_errors import read_error
from gateway.errors import UpstreamError, UpstreamUnavailable
from gateway.money import Tokens
from gateway.usage import estimate_tokens, make_chat_usage, read_messages_usage

Json = dict[str, Any]

FINISH_REASONS: Final = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "pause_turn": "length",
    "tool_use": "tool_calls",
    "refusal": "content_filter",
}
"""By stop reason; an unknown one is `stop`. A paused turn is not finished, which `length` says."""

_UNAVAILABLE: Final = frozenset({"overloaded_error", "rate_limit_error"})
_UNSAID: Final = "The upstream answered with an error."


def to_finish_reason(stop_reason: object, *, called: bool, functions: bool) -> str:
    """`called`: the reply has tool calls; `functions`: the caller knows them as function calls."""
    finish = FINISH_REASONS.get(stop_reason, "stop") if isinstance(stop_reason, str) else "stop"
    if finish == "stop" and called:
        finish = "tool_calls"
    return "function_call" if functions and finish == "tool_calls" else finish


def read_refusal(stop_reason: object, stop_details: object) -> str | None:
    """What the upstream says of why it refused, where it did."""
    if stop_reason != "refusal" or not isinstance(stop_details, dict):
        return None
    explanation = stop_details.get("explanation")
    return explanation if isinstance(explanation, str) and explanation else None


def measure_reply(
    usage: Json | None, text_bytes: int, context: ReplyContext, *, complete: bool
) -> tuple[Tokens, bool]:
    """Tokens to charge for what was reported and `text_bytes` of output, and whether estimated.

    Unless the report is `complete`, the output is at least what was delivered.
    """
    delivered = estimate_tokens(text_bytes)
    reported = read_messages_usage(usage, context.limits)
    if reported is None:
        return Tokens(input=context.input_estimate, output=delivered), True
    if not complete and delivered > reported.output:
        known = (reported.input, reported.cached_input, reported.cache_write)
        return Tokens(*known, output=delivered), True
    return reported, False


def make_usage(tokens: Tokens, usage: Json | None, *, estimated: bool) -> Json:
    """The usage object for the caller: the very tokens that are charged (wire.md §5.3)."""
    made = make_chat_usage(tokens)
    if estimated:
        return made
    details = (usage or {}).get("output_tokens_details")
    thinking = details.get("thinking_tokens") if isinstance(details, dict) else 0
    return {
        **made,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cached_input,
            "cache_write_tokens": tokens.cache_write,
        },
        "completion_tokens_details": {
            "reasoning_tokens": thinking if isinstance(thinking, int) else 0
        },
    }


def is_error(body: Json) -> bool:
    return body.get("type") == "error" or bool(body.get("error"))


def make_failure(body: Json) -> UpstreamError:
    """What an error in a 200, a body or an event, means for the caller."""
    message = read_error(body).message or _UNSAID
    error = body.get("error")
    kind = error.get("type") if isinstance(error, dict) else None
    return (UpstreamUnavailable if kind in _UNAVAILABLE else UpstreamError)(message)
