"""What the operator's verbs ask of texts and amounts, whatever they are for.

`field` is what forms call the thing that is checked.
"""

from __future__ import annotations

from typing import Final

from gateway.ledger.records import Refused
from gateway.money import MAX_AMOUNT_NANO

MAX_NAME_CHARS: Final = 100
MAX_NOTE_CHARS: Final = 500


def require_text(what: str, text: str, max_chars: int, field: str | None = None) -> None:
    """Printable, so nothing can hide in a terminal or a table: no control, no direction marks."""
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
