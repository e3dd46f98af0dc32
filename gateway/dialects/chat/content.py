"""Read the content of a chat reply: text and reasoning, pictures and recordings, and their bytes for an estimate."""

from __future__ import annotations

from typing import Final, Literal

from gateway.base.usage import count_text
from gateway.dialects.chat.calls import read_arguments
from gateway.dialects.wire.jsonbytes import get_list, get_object, get_text
from gateway.dialects.wire.records import Json
from gateway.dialects.wire.stream import PICTURE_BYTES

_MEDIA: Final = frozenset({"image", "image_url", "audio", "input_audio"})


def count_choices_text(choices: list[object], key: Literal["message", "delta"]) -> int:
    """Count the UTF-8 bytes of output in the choices of a reply or a chunk."""
    found = (choice.get(key) for choice in choices if isinstance(choice, dict))
    return sum(count_message_text(message) for message in found if isinstance(message, dict))


def count_message_text(message: Json) -> int:
    """Count the UTF-8 bytes of output in a message or a delta: text, reasoning and arguments."""
    content = message.get("content")
    thinking, text = read_content(content)
    reasoning = read_reasoning(message) or thinking
    total = count_text(text, reasoning, message.get("refusal"))
    if "tool_calls" in message or "function_call" in message:
        calls = [call for call in get_list(message, "tool_calls") if isinstance(call, dict)]
        total += sum(map(_count_call, [*calls, {"function": message.get("function_call")}]))
    if isinstance(content, list) or "audio" in message or "images" in message:
        # Pictures count as a fixed number of text bytes, recordings by their transcripts.
        audio = get_object(message, "audio")
        total += (len(list_media(message)) - bool(audio)) * PICTURE_BYTES
        total += count_text(audio.get("transcript"))
    return total


def carries(choice: object, key: Literal["message", "delta"]) -> bool:
    """Return whether a choice contains any output of the model."""
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
        total += count_text(read_arguments(held.get("arguments")), held.get("input"))
    return total


def list_media(message: Json) -> list[object]:
    """List the pictures and recordings that the model made, unchanged."""
    parts, audio = get_list(message, "content"), get_object(message, "audio")
    inline = [part for part in parts if isinstance(part, dict) and get_text(part, "type") in _MEDIA]
    return [*get_list(message, "images"), *inline, *([audio] if audio else [])]
