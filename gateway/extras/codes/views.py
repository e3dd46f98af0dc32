"""The fields of top-up codes, as `admin.fields` uses them."""

from __future__ import annotations

from typing import Final

from gateway.admin.fields import Fields
from gateway.admin.views import describe_status
from gateway.base.times import unix_ms
from gateway.extras.codes.records import CodeView, NewCodes


def describe_code_state(code: CodeView) -> str:
    ended_ms = {"redeemed": code.redeemed_ms, "void": code.voided_ms}
    return describe_status(code.status(unix_ms()), code.expires_ms, **ended_ms)


CODE: Final = Fields[CodeView](
    *("id", "batch", "display", "amount_nano", "status", "note", "created_ms", "created_by"),
    *("expires_ms", "redeemed_ms", "redeemed_by", "voided_ms"),
    table=(
        *("id", "batch"),
        ("CODE", "display"),
        "amount_nano",
        ("STATE", describe_code_state),
        ("BY", "redeemed_by"),
        "note",
    ),
)
"""A code without its secret."""
NEW_CODES: Final = Fields[NewCodes]("batch", "codes", "amount_nano", "expires_ms", "created_ms")
"""A batch with its codes, which are shown only this once."""
