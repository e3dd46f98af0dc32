"""Records of calls: the filter of a list, its rows, and one call as a whole."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.ledger.observations import UpstreamFailure
from gateway.ledger.receipts import Outcome, Receipt
from gateway.ledger.usage_records import KeyLabel
from gateway.money import Tokens

OutcomeFilter = Outcome | Literal["failed"]
"""An outcome, or all but `pending` and `complete`."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """A filter for calls; what is None is not asked for."""

    account_id: int | None = None
    request_id: str | None = None
    key_id: str | None = None
    model: str | None = None
    provider: str | None = None
    outcome: OutcomeFilter | None = None
    status: int | None = None
    since_ms: int | None = None
    """The least time at which a call began."""
    until_ms: int | None = None
    """The end; it is exclusive."""


@dataclass(frozen=True, slots=True)
class CallView:
    """One request and its end, without prompt and completion; a call in the console's JSON."""

    request_id: str
    account: str
    started_ms: int
    ended_ms: int | None
    model: str
    provider: str
    """The provider that served it or is serving it."""
    key_id: str
    key_name: str
    key_display: str
    state: Literal["pending", "posted", "voided"]
    outcome: Outcome
    status: int | None
    stream: bool
    tokens: Tokens
    cost_nano: int
    estimated: bool
    first_byte_ms: int | None
    """Time from admission to the caller's first byte."""

    @property
    def total_ms(self) -> int | None:
        """Return None while it is pending; 0 if the clock was set back meanwhile."""
        return None if self.ended_ms is None else max(self.ended_ms - self.started_ms, 0)


@dataclass(frozen=True, slots=True)
class CallDetail:
    """The receipt of a request, with its account and key."""

    account: str
    key: KeyLabel
    receipt: Receipt
    failures: tuple[UpstreamFailure, ...]
    """How each attempt failed, the first one first; for operators, as providers' addresses are."""
