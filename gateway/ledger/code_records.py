"""What is shown of top-up codes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

CodeStatus = Literal["open", "redeemed", "void", "expired"]


@dataclass(frozen=True, slots=True)
class CodeView:
    """A top-up code without the code."""

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
        """Enough to tell codes apart."""
        return f"····-{self.last4}"

    def status(self, now_ms: int) -> CodeStatus:
        if self.redeemed_ms is not None:
            return "redeemed"
        if self.voided_ms is not None:
            return "void"
        return "expired" if self.expires_ms is not None and self.expires_ms <= now_ms else "open"


@dataclass(frozen=True, slots=True)
class NewCodes:
    """Codes just made, alike but for themselves."""

    batch: str
    codes: tuple[str, ...] = field(repr=False)
    """The codes themselves: shown once, kept nowhere."""
    amount_nano: int
    expires_ms: int | None
    created_ms: int
