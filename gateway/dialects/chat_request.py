"""The chat completions request: what is checked before money is held (design.md §4). No I/O.

Validated is what the gateway prices or the spec bounds; everything else, known to it or not,
passes through. Messages and codes are OpenAI's own words where those are known (wire.md §2.1).
"""

from __future__ import annotations

from typing import Any, Final

from gateway.dialects.base import CompletionRequest
from gateway.dialects.checks import (
    MAX_TOKENS_BOUND,
    Check,
    Json,
    check_boolean,
    check_integer,
    check_number,
    check_string,
    dump_request,
    missing,
    read_object,
    wrong_type,
)
from gateway.errors import BadRequest

MAX_N: Final = 128
ROLES: Final = frozenset({"system", "developer", "user", "assistant", "tool", "function"})
_MAY_LACK_CONTENT: Final = frozenset({"assistant", "function"})
_FILE_PARTS: Final = frozenset({"image_url", "input_audio", "file"})


def parse_chat_request(data: bytes) -> CompletionRequest:
    """Validate a body. Raises BadRequest, naming the field."""
    body = read_object(data)
    for name, check in _FIELDS.items():
        value = body.get(name)
        if value is not None:
            check(name, value)
    model = body.get("model")
    if model is None:
        raise missing("model")
    text_bytes, files = _check_messages(body.get("messages"))
    tools = body.get("tools") or body.get("functions")
    if tools is not None:
        text_bytes += len(dump_request(tools))
    options = body.get("stream_options") or {}
    limits = [body.get("max_completion_tokens"), body.get("max_tokens")]
    return CompletionRequest(
        body=body,
        model=model,
        stream=body.get("stream") is True,
        wants_usage=options.get("include_usage") is True,
        n=body.get("n") or 1,
        max_tokens=next((limit for limit in limits if limit is not None), None),
        text_bytes=text_bytes,
        files=files,
    )


def _check_messages(messages: Any) -> tuple[int, int]:
    """UTF-8 bytes of text and number of files in the messages."""
    if messages is None:
        raise missing("messages")
    if not isinstance(messages, list):
        raise wrong_type("messages", "an array of objects", messages)
    if not messages:
        raise BadRequest(
            "Invalid 'messages': empty array. Expected an array with minimum length 1.",
            param="messages",
            code="empty_array",
        )
    text_bytes = files = 0
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise wrong_type(where, "an object", message)
        text, attached = _check_message(where, message)
        text_bytes += text
        files += attached
    return text_bytes, files


def _check_message(where: str, message: Json) -> tuple[int, int]:
    role = message.get("role")
    if role is None:
        raise missing(f"{where}.role")
    if not isinstance(role, str):
        raise wrong_type(f"{where}.role", "a string", role)
    if role not in ROLES:
        raise BadRequest(
            f"Invalid value for '{where}.role': expected one of {', '.join(sorted(ROLES))}.",
            param=f"{where}.role",
            code="invalid_value",
        )
    content = message.get("content")
    if content is None:
        if role not in _MAY_LACK_CONTENT:
            raise missing(f"{where}.content")
        text_bytes = files = 0
    else:
        text_bytes, files = _check_content(f"{where}.content", content)
    calls = message.get("tool_calls")
    if calls is not None:
        if not isinstance(calls, list):
            raise wrong_type(f"{where}.tool_calls", "an array of objects", calls)
        text_bytes += _count_calls(where, calls)
    return text_bytes, files


def _check_content(where: str, content: Any) -> tuple[int, int]:
    if isinstance(content, str):
        return len(content.encode()), 0
    if not isinstance(content, list):
        raise wrong_type(where, "a string or an array of content parts", content)
    if not content:
        raise BadRequest(f"Invalid '{where}': empty array.", param=where, code="empty_array")
    text_bytes = files = 0
    for index, part in enumerate(content):
        if not isinstance(part, dict):
            raise wrong_type(f"{where}[{index}]", "an object", part)
        kind = part.get("type")
        if not isinstance(kind, str):
            raise wrong_type(f"{where}[{index}].type", "a string", kind)
        text = part.get(kind) if kind in {"text", "refusal"} else None
        if kind == "text" and not isinstance(text, str):
            raise wrong_type(f"{where}[{index}].text", "a string", text)
        text_bytes += len(text.encode()) if isinstance(text, str) else 0
        files += kind in _FILE_PARTS
    return text_bytes, files


def _count_calls(where: str, calls: list[Any]) -> int:
    total = 0
    for index, call in enumerate(calls):
        if not isinstance(call, dict):
            raise wrong_type(f"{where}.tool_calls[{index}]", "an object", call)
        function = call.get("function")
        if isinstance(function, dict):
            texts = (function.get("name"), function.get("arguments"))
            total += sum(len(text.encode()) for text in texts if isinstance(text, str))
    return total


def _check_stop(name: str, value: Any) -> None:
    if isinstance(value, str):
        return
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise wrong_type(name, "a string or an array of strings", value)


def _check_stream_options(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)
    wanted = value.get("include_usage")
    if wanted is not None and not isinstance(wanted, bool):
        raise wrong_type(f"{name}.include_usage", "a boolean", wanted)


_FIELDS: Final[dict[str, Check]] = {
    "model": check_string,
    "stream": check_boolean,
    "stream_options": _check_stream_options,
    "max_tokens": check_integer(0, MAX_TOKENS_BOUND),
    "max_completion_tokens": check_integer(0, MAX_TOKENS_BOUND),
    "n": check_integer(1, MAX_N),
    "temperature": check_number(0, 2),
    "top_p": check_number(0, 1),
    "stop": _check_stop,
}
