"""The usage of a chat reply: the tokens it reports, and its text to estimate them from."""

from __future__ import annotations

from typing import Any, Final, Literal

from gateway.dialects.records import Json, Usage
from gateway.dialects.wire.jsonbytes import dumps_lenient, get_list, get_object, get_text
from gateway.dialects.wire.stream import PICTURE_BYTES
from gateway.dialects.wire.usage import make_cache_details, read_counts
from gateway.money import Tokens
from gateway.usage import count_text

_MEDIA: Final = frozenset({"image", "image_url", "audio", "input_audio"})


def find_chunk_usage(chunk: Json) -> Json | None:
    """Return the usage of a chunk, which Kimi puts into the choice and Groq into `x_groq`."""
    usage = chunk.get("usage")
    if type(usage) is not dict:
        first = next(iter(get_list(chunk, "choices")), None)
        usage = first.get("usage") if type(first) is dict else None
    if type(usage) is not dict and "x_groq" in chunk:
        usage = get_object(chunk, "x_groq").get("usage")
    return usage if type(usage) is dict else None


def lift_usage(chunk: Json) -> Json:
    """Return a chunk whose usage stands where OpenAI puts it."""
    usage = find_chunk_usage(chunk)
    # The same object tells callers that there is nothing to write anew.
    if usage is None or usage is chunk.get("usage"):
        return chunk
    lifted = {**chunk, "choices": [_drop_usage(one) for one in get_list(chunk, "choices")]}
    if "x_groq" in chunk:
        lifted["x_groq"] = _drop_usage(chunk["x_groq"])
    return {**lifted, "usage": usage}


def _drop_usage(value: Any) -> Any:
    return {k: v for k, v in value.items() if k != "usage"} if type(value) is dict else value


def maybe_repair_chat_usage(usage: Json) -> Json | None:
    """Return the usage with all tokens that are charged; None when it is that already, or unreadable."""
    counts = read_counts(usage)
    if not (counts.has_input and counts.has_output):
        return None
    wanted = make_chat_usage(counts.tokens)
    if all(type(usage.get(name)) is int and usage[name] == n for name, n in wanted.items()):
        return None
    repaired = {**usage, **wanted}
    if counts.beside:
        told = get_object(usage, "prompt_tokens_details")
        repaired["prompt_tokens_details"] = told | make_cache_details(counts.tokens)
    return repaired


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
        "prompt_tokens_details": make_cache_details(tokens),
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


def list_media(message: Json) -> list[Any]:
    """List the pictures and recordings that the model made, as they came."""
    parts, audio = get_list(message, "content"), get_object(message, "audio")
    inline = [part for part in parts if isinstance(part, dict) and get_text(part, "type") in _MEDIA]
    return [*get_list(message, "images"), *inline, *([audio] if audio else [])]


def _count_media(message: Json) -> int:
    """Count pictures, each as much text as a picture is, and what is said in a recording."""
    audio = get_object(message, "audio")
    pictures = len(list_media(message)) - bool(audio)
    return pictures * PICTURE_BYTES + count_text(audio.get("transcript"))
