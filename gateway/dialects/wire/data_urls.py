"""The URLs by which callers send files: links, and data URLs with base64 (RFC 2397)."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Final

_DATA_URL: Final = re.compile(r"data:([^;,]*)(?:;[^;,]*)*;base64,(.+)", re.IGNORECASE | re.DOTALL)


def is_link(url: str) -> bool:
    return url[:8].lower() == "https://"


def split_data_url(url: str) -> tuple[str, str]:
    """Return the media type, in lower case, and the base64; both are "" for another URL."""
    found = _DATA_URL.fullmatch(url)
    return (found[1].strip().lower(), found[2]) if found else ("", "")


def maybe_read_text(url: str) -> str | None:
    """Return the content of a text file; None for any other."""
    media_type, data = split_data_url(url)
    if not media_type.startswith("text/"):
        return None
    try:
        return b64decode(data, validate=True).decode()
    except ValueError:
        return None
