"""A chat caller's reasoning effort, as the upstream's model takes it (wire.md §5.1). No I/O."""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import Target
from gateway.dialects.checks import Json
from gateway.dialects.to_messages_checks import unsupported_value

DEFAULT_EFFORT: Final = "medium"
EFFORTS: Final = {
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "xhigh",
    "max": "max",
}
"""By the chat word; `none` is none of them."""
BUDGETS_TOKENS: Final = {"low": 1024, "medium": 2048, "high": 4096, "xhigh": 8192, "max": 16384}
MIN_BUDGET_TOKENS: Final = 1024
"""Less thinking the upstream refuses; the budget must also stay below `max_tokens`."""

_FIELD: Final = "reasoning_effort"


def to_thinking(word: Any, max_tokens: int, target: Target) -> tuple[Json | None, str | None]:
    """The fields `thinking` and `output_config.effort`, None where nothing is to be said."""
    if word is None:
        return None, None
    if word != "none" and (not isinstance(word, str) or word not in EFFORTS):
        raise unsupported_value(_FIELD, f"It is one of none, {', '.join(EFFORTS)}.")
    match target.reasoning:
        case "effort" if word == "none":
            return {"type": "disabled"}, None
        case "effort":
            return {"type": "adaptive"}, EFFORTS[word]
        case "budget" if word == "none":
            return None, None  # such models think only when they are told to
        case "budget":
            return _make_budget(word, max_tokens), None
        case "none":
            if word not in {"none", DEFAULT_EFFORT}:
                raise unsupported_value(_FIELD, "This model does not reason.")
            return None, None


def _make_budget(word: str, max_tokens: int) -> Json | None:
    budget_tokens = min(BUDGETS_TOKENS[EFFORTS[word]], max_tokens - 1)
    if budget_tokens >= MIN_BUDGET_TOKENS:
        return {"type": "enabled", "budget_tokens": budget_tokens}
    if word == DEFAULT_EFFORT:
        return None
    raise unsupported_value(
        _FIELD,
        f"To reason, this model needs a maximum of more than {MIN_BUDGET_TOKENS} tokens.",
    )
