"""What is asked of the sums by hour and day, and what they answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from gateway.money import Tokens


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """Days are those in which calls ended, counted from the epoch in UTC; both are inclusive."""

    account_id: int
    first_day: int
    last_day: int
    key_id: str | None = None
    model: str | None = None


class Usage(NamedTuple):
    """A sum of posted requests. A tuple, like the next: a chart has thousands."""

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int = 0

    @property
    def tokens(self) -> Tokens:
        return Tokens(*self[1:5])


class UsagePoint(NamedTuple):
    """One model within one day or hour, counted from the epoch."""

    at: int
    model: str
    usage: Usage


@dataclass(frozen=True, slots=True)
class KeyLabel:
    id: str
    name: str
    display: str


@dataclass(frozen=True, slots=True)
class UsageReport:
    """All of it from one state of the database, so that its sums are equal."""

    points: tuple[UsagePoint, ...]
    """By days or hours, the oldest first; only those with calls."""
    keys: tuple[tuple[KeyLabel, Usage], ...]
    """The dearest first; only asked for by key."""
    models: tuple[str, ...]
    """Those that were used, whichever model was asked for."""


@dataclass(frozen=True, slots=True)
class OverviewView:
    days: dict[int, Usage]
    """The last days with calls."""
    active_keys: int
    has_key: bool
    """Or had one, which is revoked or expired since."""
    has_call: bool
    """Whether one was ever charged."""
    expiring: tuple[tuple[KeyLabel, int], ...]
    """Keys that work now and soon expire, and when, in Unix milliseconds; those first to go first."""
