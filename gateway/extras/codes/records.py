"""Records of top-up codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.admin.fields import Fields
from gateway.admin.views import describe_status
from gateway.base.times import format_moment, unix_ms
from gateway.ledger.records import Refused

CodeStatus = Literal["open", "redeemed", "void", "expired"]


@dataclass(frozen=True, slots=True)
class CodeView:
    """A top-up code without its secret."""

    id: str
    batch: str
    last4: str
    amount_nano: int
    note: str
    created_by: str
    created_ms: int
    expires_ms: int | None
    voided_ms: int | None
    redeemed_ms: int | None
    redeemed_by: str | None
    """The account's name."""

    @property
    def display(self) -> str:
        """Return a text that tells codes apart."""
        return f"····-{self.last4}"

    def status(self, now_ms: int) -> CodeStatus:
        if self.redeemed_ms is not None:
            return "redeemed"
        if self.voided_ms is not None:
            return "void"
        return "expired" if self.expires_ms is not None and self.expires_ms <= now_ms else "open"


@dataclass(frozen=True, slots=True)
class NewCodes:
    """A batch of new codes."""

    batch: str
    codes: tuple[str, ...] = field(repr=False)
    """The secrets; they are shown once and stored nowhere."""
    amount_nano: int
    expires_ms: int | None
    created_ms: int


@dataclass(frozen=True, slots=True)
class CodeTerms:
    """The terms that all codes of a batch share."""

    batch: str
    amount_nano: int
    expires_ms: int | None
    note: str


class InvalidCode(Refused):
    """There is no such code, or it is used, void or expired; the caller is not told which.

    Only the account that redeemed a code is told so, and when.
    """

    def __init__(self, redeemed_ms: int | None = None) -> None:
        super().__init__(
            "this code is mistyped, used, void or expired; check it, or ask whoever gave it to you"
            if redeemed_ms is None
            else f"you redeemed this code on {format_moment(redeemed_ms)} UTC; it works once",
            code="code_invalid",
            field="code",
        )


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
