"""The completions API from outside: requests, and a provider's replies and events."""

from __future__ import annotations

from typing import Any, Final

COMPLETIONS: Final = "/v1/completions"
USAGE: Final = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
HEAD: Final = {
    "id": "cmpl-upstream",
    "object": "text_completion",
    "created": 1,
    "model": "upstream-text-2026",
}

Json = dict[str, Any]


def complete(model: str, prompt: object = "def add(a, b):", **extra: Any) -> Json:
    """Make a request."""
    return {"model": model, "prompt": prompt} | extra


def make_choice(text: str, finish: str | None = None, index: int = 0) -> Json:
    return {"index": index, "text": text, "logprobs": None, "finish_reason": finish}


def text_completion(*texts: str, usage: object = USAGE) -> Json:
    """Make a reply; `usage=None` leaves it out."""
    choices = [make_choice(text, "stop", index) for index, text in enumerate(texts or ("Hi",))]
    return {**HEAD, "choices": choices} | ({} if usage is None else {"usage": usage})


def text_events(*texts: str, usage: object = USAGE) -> list[Json]:
    """Make the events of a stream, the last with the usage alone."""
    made = [{**HEAD, "choices": [make_choice(text)]} for text in texts]
    made.append({**HEAD, "choices": [make_choice("", "stop")]})
    return [*made, {**HEAD, "choices": [], "usage": usage}]
