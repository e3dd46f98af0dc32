"""Take a provider's key and names out of errors before anybody sees them."""

from __future__ import annotations

import re

from gateway.errors import GatewayError


def redact(error: GatewayError, secret: str) -> None:
    """Take a secret out of an error, whatever the provider echoed."""
    if secret:
        _replace(error, re.escape(secret), "[redacted]")


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
