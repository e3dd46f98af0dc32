"""Files in a request outside the parts of a conversation: what its bytes do not bound.

A provider reads what it finds under names that the gateway does not know, too. So whatever looks like a
file there counts as all that a model can read; see `usage.UNBOUNDED`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from gateway.base.usage import UNBOUNDED
from gateway.dialects.wire.multiplied import BAGS
from gateway.dialects.wire.records import CompletionRequest, Json

_MEDIA: Final = re.compile(
    "attach|audio|document|file|image|input|media|message|modal|pdf|source|url|video", re.IGNORECASE
)
"""Parts of the names of members that may hold files, or refer to them."""
ORDINARY: Final = frozenset(
    {"audio", "input", "instructions", "max_completion_tokens", "max_output_tokens", "max_tokens"}
    | {"messages", "metadata", "modalities", "model", "response_format", "stream"}
    | {"stream_options", "system", "temperature", "tool_choice", "tools"}
)
"""Members of a request for text that hold no files, whatever their names, or are looked at."""
_NAME_CHARS: Final = 64
"""Characters of a name that is looked at; a longer one counts as such a name."""
_ADDRESS: Final = re.compile(r"(?:file|gs|https?|s3)://", re.IGNORECASE)
_DATA: Final = re.compile(r"data:[\w.+-]{1,100}/", re.IGNORECASE)
_ADDRESS_CHARS: Final = 4096
"""Characters of an address that are looked at for a space, which none has."""
_CONTENT_CHARS: Final = 256
"""Characters from which on a text under such a name may be the content of a file."""


def is_reference(text: str) -> bool:
    """Return whether a text is nothing but the address of a file, or a data URL."""
    head = text.lstrip()[:_ADDRESS_CHARS].rstrip()
    if _ADDRESS.match(head):
        return len(head.split(maxsplit=1)) == 1
    return _DATA.match(head) is not None


def add_others(request: CompletionRequest, held: object, known: Container[str] = ()) -> None:
    """Count what may be files in a part of a request, under names that are not `known`."""
    if type(held) is dict and has_files(held, known):
        request.more_tokens = max(request.more_tokens, UNBOUNDED)


def has_files(held: Json, known: Container[str] = ()) -> bool:
    """Return whether an object may have files under names that are not `known`, or in a bag."""
    for name, value in held.items():
        if not value or name in known:
            continue
        if name in BAGS and type(value) is dict:
            # Three levels at most: `known` refuses a bag within the second one.
            if has_files(value):
                return True
        elif len(name) > _NAME_CHARS or _MEDIA.search(name):
            if type(value) is dict or type(value) is list:
                return True
            if type(value) is str and (len(value) > _CONTENT_CHARS or is_reference(value)):
                return True
    return False
