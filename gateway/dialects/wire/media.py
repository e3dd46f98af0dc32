"""Files in a request outside the parts of a conversation: what its bytes do not bound.

A provider reads what it finds under names that the gateway does not know, too. So whatever looks like a
file there counts as all that a model can read; see `usage.UNBOUNDED`.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Final

from gateway.dialects.records import Json

_MEDIA: Final = re.compile(
    r"attach|audio|document|file|image|input|media|message|modal|pdf|url|video", re.IGNORECASE
)
"""Names of members that may hold files, or refer to them."""
_REFERENCE: Final = re.compile(
    r"\s*(?:(?:file|gs|https?|s3)://\S+\s*\Z|data:[\w.+-]+/)", re.IGNORECASE
)
_CONTENT_CHARS: Final = 256
"""Characters from which on a text under such a name may be the content of a file."""


def is_reference(text: str) -> bool:
    """Return whether a text is nothing but the address of a file, or a data URL."""
    return _REFERENCE.match(text) is not None


def has_files(held: Json, known: Container[str] = ()) -> bool:
    """Return whether an object may have files under names that are not `known`."""
    for name, value in held.items():
        if value and name not in known and _MEDIA.search(name):
            if type(value) is dict or type(value) is list:
                return True
            if type(value) is str and (len(value) > _CONTENT_CHARS or is_reference(value)):
                return True
    return False
