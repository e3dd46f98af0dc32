"""Take a provider's key and names out of errors before anybody sees them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from gateway.errors import GatewayError

_REDACTED: Final = "[redacted]"


def redact(error: GatewayError, secrets: Iterable[str]) -> None:
    """Take secrets out of an error, whatever the provider echoed."""
    for secret in _list_longest_first(secrets):
        _replace(error, re.escape(secret), _REDACTED)


def take_out(text: str, secrets: Iterable[str]) -> str:
    """Take secrets out of a text."""
    for secret in _list_longest_first(secrets):
        text = text.replace(secret, _REDACTED)
    return text


def _list_longest_first(secrets: Iterable[str]) -> list[str]:
    """Return those that are not empty. One may begin another, of which it would leave the rest."""
    return sorted(filter(None, secrets), key=len, reverse=True)


def rename(error: GatewayError, old: str, new: str) -> None:
    """Replace the provider's name of a model by the gateway's, but not inside a longer word."""
    _replace(error, rf"(?<![\w/.-]){re.escape(old)}(?![\w/-])", new)


def _replace(error: GatewayError, pattern: str, new: str) -> None:
    def edit(text: str) -> str:
        return re.sub(pattern, lambda _: new, text)

    error.message = edit(error.message)
    error.cause = edit(error.cause)
    error.param = error.param and edit(error.param)
    error.code = error.code and edit(error.code)
    error.provider_code = error.provider_code and edit(error.provider_code)
