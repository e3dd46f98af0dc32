"""Counts for operators beside the books: refusals, and calls to providers.

Its records, and its parts of both contracts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from gateway.times import DAY_MS

KEPT_MS: Final = 31 * DAY_MS
"""How long the sums are kept: "the last 30 days", and the day that goes on."""
KEPT_FAILURES: Final = 10_000
"""How many failures are kept one by one, by the request: a provider that is down makes many."""
SLOT_MS: Final = 600_000
"""Calls to providers are summed by ten minutes, so that "the last hour" means 50 to 60 minutes."""


@dataclass(frozen=True, slots=True)
class UpstreamFailure:
    """A provider's failure: never a text of its own, which may quote what was asked."""

    at_ms: int
    request_id: str
    status: int | None
    """The status of its reply; None if there was none."""
    reason: str
    url: str
    """The whole address, without secrets; "" for the built-in provider."""


@dataclass(frozen=True, slots=True)
class RefusalView:
    """Refused requests of one account with one code for one model."""

    account: str | None
    """None if the key is unknown."""
    code: str
    model: str
    """"" if none was named by then, or none that is configured."""
    count: int
    last_ms: int
    last_request_id: str


@dataclass(frozen=True, slots=True)
class CallSums:
    calls: int = 0
    failures: int = 0


@dataclass(frozen=True, slots=True)
class UpstreamView:
    """How a provider answered for one of its models."""

    provider: str
    upstream_model: str
    hour: CallSums
    """The last 50 to 60 minutes."""
    today: CallSums
    """The UTC day."""
    latest: CallSums
    """The latest ten minutes in which it was asked."""
    failure: UpstreamFailure | None
    """The last one that is kept."""


class Counts(Protocol):
    """The part of the serving ledger: counting in memory, for which no request waits.

    Sums are written within seconds and at the end; a kill loses those that were not.
    """

    def note_refusal(self, account_id: int | None, code: str, model: str, request_id: str) -> None:
        """Count a request that the gateway refused itself; None: its key is unknown."""

    def note_upstream_call(
        self, provider: str, upstream_model: str, failure: UpstreamFailure | None
    ) -> None:
        """Count a request to a provider, and how it failed if it did."""
