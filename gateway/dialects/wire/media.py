"""Files in a request outside the parts of a conversation: what its bytes do not bound.

A provider reads what it finds under names that the gateway does not know, too. So whatever looks like a
file there counts as all that a model can read; see `usage.UNBOUNDED`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from gateway.dialects.records import Json

_MEDIA: Final = (
    *("attach", "audio", "document", "file", "image", "input", "media"),
    *("message", "modal", "pdf", "url", "video"),
)
"""Parts of the names of members that may hold files, or refer to them."""
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


def has_files(held: Json, known: Container[str] = ()) -> bool:
    """Return whether an object may have files under names that are not `known`."""
    for name, value in held.items():
        if value and name not in known and _is_media(name):
            if type(value) is dict or type(value) is list:
                return True
            if type(value) is str and (len(value) > _CONTENT_CHARS or is_reference(value)):
                return True
    return False


def _is_media(name: str) -> bool:
    if len(name) > _NAME_CHARS:
        return True
    lowered = name.lower()
    return any(one in lowered for one in _MEDIA)
