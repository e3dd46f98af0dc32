"""The messages request: what is checked before money is held (wire.md §4.1). No I/O.

As in the chat dialect only what the gateway prices or the format bounds is checked; a messages
upstream judges the rest, and what a chat upstream cannot take the translator refuses.
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

ROLES: Final = frozenset({"user", "assistant", "system"})
_FILE_BLOCKS: Final = frozenset({"image", "document"})


def parse_messages_request(data: bytes, *, counting: bool = False) -> CompletionRequest:
    """Validate a body; `counting` is count_tokens', without max_tokens. Raises BadRequest."""
    body = read_object(data)
    for name, check in _FIELDS.items():
        value = body.get(name)
        if value is not None:
            check(name, value)
    required = ("model", "messages") if counting else ("model", "messages", "max_tokens")
    for name in required:
        if body.get(name) is None:
            raise missing(name)
    text_bytes, files = _count_messages(body["messages"])
    system_bytes, system_files = _count_content("system", body.get("system") or "")
    tools = body.get("tools")
    tool_bytes = len(dump_request(tools)) if tools else 0
    return CompletionRequest(
        body=body,
        model=body["model"],
        stream=body.get("stream") is True,
        wants_usage=True,
        n=1,
        max_tokens=body.get("max_tokens"),
        text_bytes=text_bytes + system_bytes + tool_bytes,
        files=files + system_files,
    )


def _count_messages(messages: list[Any]) -> tuple[int, int]:
    """UTF-8 bytes of text and number of files in the messages."""
    if not messages:
        raise BadRequest("messages: at least one message is required.", param="messages")
    text_bytes = files = 0
    for index, message in enumerate(messages):
        where = f"messages.{index}"
        if not isinstance(message, dict):
            raise wrong_type(where, "an object", message)
        role = message.get("role")
        if role is None:
            raise missing(f"{where}.role")
        if not isinstance(role, str) or role not in ROLES:
            raise BadRequest(
                f"{where}.role: expected 'user', 'assistant' or 'system'.", param=f"{where}.role"
            )
        if message.get("content") is None:
            raise missing(f"{where}.content")
        text, attached = _count_content(f"{where}.content", message["content"])
        text_bytes += text
        files += attached
    return text_bytes, files


def _count_content(where: str, content: Any) -> tuple[int, int]:
    if isinstance(content, str):
        return len(content.encode()), 0
    if not isinstance(content, list):
        raise wrong_type(where, "a string or an array of content blocks", content)
    text_bytes = files = 0
    for index, block in enumerate(content):
        place = f"{where}.{index}"
        if not isinstance(block, dict):
            raise wrong_type(place, "an object", block)
        kind = block.get("type")
        if not isinstance(kind, str):
            raise wrong_type(f"{place}.type", "a string", kind)
        text = block.get("text")
        if kind == "text" and not isinstance(text, str):
            raise wrong_type(f"{place}.text", "a string", text)
        text_bytes += _count_block(block)
        files += kind in _FILE_BLOCKS
        if kind == "tool_result" and block.get("content") is not None:
            inner, attached = _count_content(f"{place}.content", block["content"])
            text_bytes += inner
            files += attached
    return text_bytes, files


def _count_block(block: Json) -> int:
    """UTF-8 bytes of a block's own text, of what it thought and of a tool's input."""
    texts = [block.get("text"), block.get("thinking"), block.get("name")]
    size = sum(len(text.encode()) for text in texts if isinstance(text, str))
    return size + len(dump_request(block["input"])) if "input" in block else size


def _check_array(name: str, value: Any) -> None:
    if not isinstance(value, list):
        raise wrong_type(name, "an array", value)


def _check_object(name: str, value: Any) -> None:
    if not isinstance(value, dict):
        raise wrong_type(name, "an object", value)


def _check_strings(name: str, value: Any) -> None:
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise wrong_type(name, "an array of strings", value)


_FIELDS: Final[dict[str, Check]] = {
    "model": check_string,
    "messages": _check_array,
    "max_tokens": check_integer(0, MAX_TOKENS_BOUND),
    "stream": check_boolean,
    "stop_sequences": _check_strings,
    "temperature": check_number(0, 1),
    "top_p": check_number(0, 1),
    "top_k": check_integer(0, MAX_TOKENS_BOUND),
    "tools": _check_array,
    "tool_choice": _check_object,
    "thinking": _check_object,
    "output_config": _check_object,
    "metadata": _check_object,
}
