"""Checks of texts, amounts and dates that several verbs share.

`field` is the name of the checked input in forms.
"""

from __future__ import annotations

from typing import Final

from gateway.ledger import Refused
from gateway.money import MAX_AMOUNT_NANO

MAX_NAME_CHARS: Final = 100
"""Characters of a name: it has to fit into a line of a table."""
MAX_NOTE_CHARS: Final = 500
"""Characters of a note: a sentence or two, stored for good with each entry."""
MAX_IDEMPOTENCY_KEY_CHARS: Final = 200
"""Characters of an idempotency key: several times a UUID, and it is part of an index."""
MAX_COUNT: Final = 10**9
"""The largest count or limit. More is taken for a typing error."""
MAX_MOMENT_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999, where dates end."""


def require_text(what: str, text: str, max_chars: int, field: str | None = None) -> None:
    """Require printable text: control and direction marks could hide things in a terminal."""
    if not 1 <= len(text) <= max_chars:
        raise Refused(f"{what} must have 1 to {max_chars} characters", field=field)
    if not text.isprintable() or text != text.strip():
        raise Refused(
            f"{what} may only have printable characters, and no space at its ends", field=field
        )


def require_amount(amount_nano: int, field: str = "amount") -> None:
    if abs(amount_nano) > MAX_AMOUNT_NANO:
        raise Refused(
            "an amount beyond a thousand million is taken for a typing error", field=field
        )


def require_expiry(what: str, expires_ms: int, now_ms: int) -> None:
    """Require a future time that can be written as a date, because lists show it as one."""
    if expires_ms <= now_ms:
        raise Refused(f"{what} must be in the future", field="expires")
    if expires_ms > MAX_MOMENT_MS:
        raise Refused(f"{what} must be within the year 9999", field="expires")
