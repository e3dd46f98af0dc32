"""The usage of a chat reply: the tokens it reports, and its text to estimate them from."""

from __future__ import annotations

from typing import Any, Final, Literal

from gateway.dialects.records import Json, Usage
from gateway.dialects.wire import PICTURE_BYTES, dumps_lenient, get_list, get_object, get_text
from gateway.money import Tokens, read_charged_nano
from gateway.prices import UNSAID, Terms, name_tier
from gateway.usage import (
    MAX_PLAUSIBLE_SEARCHES,
    Expected,
    Reported,
    UsageLimits,
    are_counts,
    count_text,
)

_BILL: Final = frozenset({"cost", "cost_details", "is_byok"})
"""The members of a usage object that tell of OpenRouter's bill."""
_MEDIA: Final = frozenset({"image", "image_url", "audio", "input_audio"})


def read_chat_usage(usage: object, tier: object, expected: Expected) -> Reported:
    """Read a usage object and the service tier beside or in it. Null is absence, field by field.

    Cached and written tokens are inside `prompt_tokens` (OpenAI API reference; DeepSeek calls the
    first `prompt_cache_hit_tokens`). The output is max(completion, total - prompt), since xAI and
    others leave reasoning out of `completion_tokens`.
    """
    told: Json = usage if type(usage) is dict else {}
    served = name_tier(tier) or name_tier(told.get("service_tier"))
    terms = Terms(served) if served else UNSAID
    reported = Reported(_read_tokens(told, expected.limits), _read_searches(told), terms)
    if "cost" in told:  # OpenRouter: credits, which are US dollars
        reported.cost_nano = read_charged_nano(told["cost"])
    return reported


def pick_told(usage: object) -> Json | None:
    """Return the fields of a usage object that are not null; None if there are none."""
    if not isinstance(usage, dict):
        return None
    return {key: value for key, value in usage.items() if value is not None} or None


def _read_tokens(usage: Json, limits: UsageLimits) -> Tokens | None:
    prompt: Any = usage.get("prompt_tokens")
    completion: Any = usage.get("completion_tokens")
    total: Any = usage.get("total_tokens")
    details: Any = usage.get("prompt_tokens_details") or {}
    if type(details) is not dict:
        return None
    cached: Any = details.get("cached_tokens") or usage.get("prompt_cache_hit_tokens") or 0
    written: Any = details.get("cache_write_tokens") or 0
    completion = 0 if completion is None else completion
    total = 0 if total is None else total  # as good as none, since the larger output counts
    if not are_counts(prompt, completion, total, cached, written):
        return None
    output = max(completion, total - prompt)
    if prompt > limits.input or output > limits.output:
        return None
    if cached + written > prompt:
        cached = min(cached, prompt)
        written = prompt - cached
    return Tokens(prompt - cached - written, cached, written, output)


def _read_searches(usage: Json) -> int | None:
    """Read the number of web searches: Perplexity and OpenRouter report it, OpenAI does not."""
    found: Any = usage.get("num_search_queries")
    if "server_tool_use" in usage:
        told = get_object(usage, "server_tool_use").get("web_search_requests")
        found = found if told is None else told
    return min(found, MAX_PLAUSIBLE_SEARCHES) if are_counts(found) else None


def maybe_repair_chat_usage(usage: Json) -> Json | None:
    """Return the usage with a total that is the sum, and without the provider's bill.

    None when it is that already, or unreadable.
    """
    if "cost" in usage or "cost_details" in usage:  # the operator's affair: callers pay its prices
        shown = {key: value for key, value in usage.items() if key not in _BILL}
        return maybe_repair_chat_usage(shown) or shown
    prompt: Any = usage.get("prompt_tokens")
    completion: Any = usage.get("completion_tokens")
    total: Any = usage.get("total_tokens")
    if not are_counts(prompt, completion) or (type(total) is int and total == prompt + completion):
        return None
    output = max(completion, total - prompt) if are_counts(total) else completion
    return {**usage, "completion_tokens": output, "total_tokens": prompt + output}


def make_chat_usage(tokens: Tokens) -> Json:
    """Write a usage object for a reply whose upstream gave none: callers expect one."""
    prompt = tokens.all_input
    return {
        "prompt_tokens": prompt,
        "completion_tokens": tokens.output,
        "total_tokens": prompt + tokens.output,
    }


def make_translated_usage(usage: Usage, reasoning_tokens: object) -> Json:
    """Write the usage object of a translated reply: the very tokens that are charged."""
    tokens = usage.tokens
    made = make_chat_usage(tokens)
    if usage.estimated:
        return made
    return {
        **made,
        "prompt_tokens_details": {
            "cached_tokens": tokens.cached_input,
            "cache_write_tokens": tokens.cache_write + tokens.cache_write_1h,
        },
        "completion_tokens_details": {
            "reasoning_tokens": reasoning_tokens if isinstance(reasoning_tokens, int) else 0
        },
    }


def count_choices_text(choices: list[Any], key: Literal["message", "delta"]) -> int:
    """Count the UTF-8 bytes that the choices of a reply or of a chunk bring."""
    found = (choice.get(key) for choice in choices if isinstance(choice, dict))
    return sum(count_message_text(message) for message in found if isinstance(message, dict))


def count_message_text(message: Json) -> int:
    """Count the UTF-8 bytes that a message or a delta brings: text, reasoning and arguments."""
    content = message.get("content")
    thinking, text = read_content(content)
    reasoning = read_reasoning(message) or thinking
    total = count_text(text, reasoning, message.get("refusal"))
    if "tool_calls" in message or "function_call" in message:
        calls = [call for call in get_list(message, "tool_calls") if isinstance(call, dict)]
        total += sum(map(_count_call, [*calls, {"function": message.get("function_call")}]))
    if isinstance(content, list) or "audio" in message or "images" in message:
        total += _count_media(message)
    return total


def carries(choice: Any, key: Literal["message", "delta"]) -> bool:
    """Return whether a choice brings anything that the model made, text or not."""
    delta = choice.get(key) if isinstance(choice, dict) else None
    if not isinstance(delta, dict):
        return False
    made = (value for key, value in delta.items() if key != "role")
    return any(value for value in made if isinstance(value, str | list | dict))


def read_content(content: object) -> tuple[str, str]:
    """Read the reasoning and the text of a content, which at Mistral may be an array of both."""
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
                pass  # pictures and references are no text
    return thinking, text


def read_reasoning(message: Json) -> str:
    """Read the reasoning of a message or delta under either of its names, never twice."""
    return get_text(message, "reasoning_content") or get_text(message, "reasoning")


def _count_call(call: Json) -> int:
    """Count the arguments of a function, or the input of a custom tool."""
    total = 0
    for kind in ("function", "custom"):
        held = get_object(call, kind)
        arguments = held.get("arguments")
        if isinstance(arguments, dict):  # as Ollama writes them
            arguments = dumps_lenient(arguments).decode("utf-8", "replace")
        total += count_text(arguments, held.get("input"))
    return total


def _count_media(message: Json) -> int:
    """Count recordings and pictures that the model made, each as much text as a picture is."""
    parts, said = get_list(message, "content"), get_object(message, "audio").get("transcript")
    media = sum(isinstance(part, dict) and part.get("type") in _MEDIA for part in parts)
    return (len(get_list(message, "images")) + media) * PICTURE_BYTES + count_text(said)
