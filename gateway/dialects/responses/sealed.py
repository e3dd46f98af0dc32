"""Sealed content: reasoning that only the provider who encrypted it can read.

What a provider seals leaves here with a tag of the provider, and goes back to that one alone: another
would refuse the whole request.
"""

from __future__ import annotations

import hashlib
import re
from typing import Any, Final

from gateway.dialects.records import Json
from gateway.errors import BadRequest

KEY: Final = "encrypted_content"
_MEMBER: Final = re.compile(rb'("encrypted_content"\s*:\s*")(?!")')
"""A match is always a member with a text: inside a string its quotes would be escaped."""
_TAG_HEX_CHARS: Final = 8
"""Hex characters in a tag: they tell a few providers apart, and keep nothing secret."""
_CANNOT_DROP: Final = "compaction"
"""The type of item that stands for a whole conversation."""


def tag_provider(name: str, base_url: str) -> str:
    """Make the tag of a provider."""
    digest = hashlib.sha256(f"{name}\n{base_url}".encode()).hexdigest()
    return f"gw1.{digest[:_TAG_HEX_CHARS]}."


def tag_sealed(text: bytes, tag: str) -> bytes:
    """Put the tag before all sealed content in a JSON text."""
    if b'"encrypted_content"' not in text:
        return text
    return _MEMBER.sub(rb"\g<1>" + tag.encode(), text)


def untag_items(items: list[Any], tag: str) -> list[Any]:
    """Return the items of an `input` that the provider of a tag can read, as it sealed them.

    Raises BadRequest for another's summary of a conversation.
    """
    found = (_maybe_untag(item, index, tag) for index, item in enumerate(items))
    return [item for item in found if item is not None]


def _maybe_untag(item: Any, index: int, tag: str) -> Any:
    sealed = item.get(KEY) if isinstance(item, dict) else None
    if not isinstance(sealed, str) or not sealed:
        return item
    if sealed.startswith(tag):
        opened: Json = {**item, KEY: sealed.removeprefix(tag)}
        return opened
    if item.get("type") == _CANNOT_DROP:
        raise BadRequest(
            f"Unsupported value: 'input[{index}].{KEY}'. Another provider made this summary of the "
            "conversation; send the conversation itself.",
            param=f"input[{index}].{KEY}",
            code="unsupported_value",
        )
    return None
