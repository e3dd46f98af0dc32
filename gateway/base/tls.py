"""Why a TLS handshake failed, in OpenSSL's words."""

from __future__ import annotations

import ssl
from typing import Final

_NO_TLS: Final = frozenset(
    {
        *("HTTP_REQUEST", "PACKET_LENGTH_TOO_LONG", "RECORD_LAYER_FAILURE"),
        *("UNKNOWN_PROTOCOL", "WRONG_VERSION_NUMBER"),
    }
)
"""Reasons of OpenSSL's versions if the first bytes of the other side are no TLS."""
_MAX_LOOKED_AT: Final = 50
"""Exceptions among which the one of OpenSSL is looked for: they may refer to each other in a circle."""


def describe_tls(error: BaseException) -> str | None:
    """Return why a handshake failed, of an error or of those that it wraps; None if none of them says.

    It names neither host nor address.
    """
    found = _find(error)
    if isinstance(found, ssl.SSLCertVerificationError) and found.verify_message:
        # "Hostname mismatch, certificate is not valid for 'NAME'."
        said, mark, _ = found.verify_message.partition(", certificate is not valid for")
        return f"{said}, the certificate is for other names" if mark else said
    if found is None:
        return None
    reason = found.reason
    words = reason.lower().replace("_", " ")
    return f"it speaks plain http, not TLS ({words})" if reason in _NO_TLS else words


def _find(error: BaseException) -> ssl.SSLError | None:
    """Find OpenSSL's error: libraries keep it as the cause, the context, the reason or an argument."""
    waiting: list[object] = [error]
    for _ in range(_MAX_LOOKED_AT):
        if not waiting:
            break
        one = waiting.pop(0)
        # aiohttp's errors are SSLErrors, too, but do not say why.
        if isinstance(one, ssl.SSLError) and getattr(one, "reason", None):
            return one
        if isinstance(one, BaseException):
            waiting += (one.__cause__, one.__context__, getattr(one, "reason", None), *one.args)
    return None
