"""Seals: strings in which callers return a provider's state with the next turn.

A seal travels in texts that SDKs return unchanged: the signature of a thinking block, the encrypted
content of a reasoning item, or after the id of a tool call. It carries its provider's tag, and goes back
only to that provider. It is neither encrypted nor signed.
"""

from __future__ import annotations

import hashlib
import re
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final

import orjson

from gateway.dialects.wire.bounds import has_more_elements, spend_elements
from gateway.dialects.wire.jsonbytes import dumps_lenient

ANY_TAG: Final = "gw1."
"""The beginning of all tags."""
_TAG_HEX_CHARS: Final = 8
"""Hex characters in a tag: enough to distinguish a few providers."""
_OURS: Final = "~"
"""Stands between a tag and a state that the gateway sealed: no provider's own seal begins with it."""
_SEPARATOR: Final = ","
"""Separates the seals of one text."""
_LEAST_ELEMENTS: Final = 100
"""JSON values that a state of any length may have: in a short state, text is the smaller part."""
_BYTES_PER_ELEMENT: Final = 16
"""Bytes of a state for each further JSON value: nearly all of a long state is text."""
_ID_MARK: Final = "-gw1-"
"""Separates an id from a seal."""
_SEALED: Final = re.compile(r"([0-9a-f]{8})-([A-Za-z0-9_-]+)")


def tag_provider(name: str, base_url: str) -> str:
    """Make the tag of a provider."""
    # Callers see the tag, so it does not name the provider.
    digest = hashlib.sha256(f"{name}\n{base_url}".encode()).hexdigest()
    return f"{ANY_TAG}{digest[:_TAG_HEX_CHARS]}."


def is_ours(sealed: str, tag: str) -> bool:
    """Return whether a text with this tag was sealed by the gateway, not by the provider."""
    return sealed.startswith(_OURS, len(tag))


def seal(state: object, tag: str) -> str:
    """Seal a state for the provider with this tag. Without a tag, return ""."""
    if not tag:
        return ""
    packed = urlsafe_b64encode(dumps_lenient(state))
    # The padding `=` is left out: some providers refuse it in ids of calls.
    return f"{tag}{_OURS}{packed.decode().rstrip('=')}"


def join_seals(seals: list[str]) -> str:
    return _SEPARATOR.join(filter(None, seals))


def open_seals(sealed: object, tag: str) -> list[object]:
    """Return the states in a text that were sealed for the provider with this tag, in order."""
    if not isinstance(sealed, str) or not tag:
        return []
    begin = tag + _OURS
    found = (one.removeprefix(begin) for one in sealed.split(_SEPARATOR) if one.startswith(begin))
    return [state for packed in found if (state := _maybe_unpack(packed)) is not None]


def seal_id(identity: str, sealed: str) -> str:
    """Append a seal to an id, in characters that all ids may have."""
    tag, _, packed = sealed.partition(_OURS)
    return f"{identity}-{tag.replace('.', '-')}{packed}" if packed else identity


def split_id(identity: str) -> tuple[str, str]:
    """Return a provider's own id and the seal after it, or ""."""
    own, _, behind = identity.partition(_ID_MARK)
    found = _SEALED.fullmatch(behind)
    return (own, f"{ANY_TAG}{found[1]}.{_OURS}{found[2]}") if found else (identity, "")


def _maybe_unpack(packed: str) -> object:
    """Read a state; return None if it is malformed or has far more values than a state."""
    try:
        text = urlsafe_b64decode(packed + "=" * (-len(packed) % 4))
    except ValueError:
        return None
    # A caller may forge a seal, so its values count like those of the request.
    spend_elements(text)
    dense = has_more_elements(text, _LEAST_ELEMENTS + len(text) // _BYTES_PER_ELEMENT)
    try:  # orjson refuses values that it could not write again, such as half a character
        return None if dense else orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
