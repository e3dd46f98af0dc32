"""The record that each request carries, and the headers that every reply to it has."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gateway.api.limits import Rates
from gateway.dialects.base import Caller
from gateway.ledger.base import Key
from gateway.ledger.call_records import Outcome
from gateway.money import Tokens, format_amount

if TYPE_CHECKING:  # the state of all requests knows records of single ones
    from gateway.api.state import Gateway


@dataclass(slots=True)
class Call:
    """One request: what is known of it, and what its log line says."""

    gateway: Gateway
    request_id: str
    dialect: Caller
    started: float
    """Monotonic seconds."""
    started_ms: int
    """Wall clock, Unix milliseconds."""
    surface: str = ""
    """The part of the application that the path belongs to."""
    key: Key | None = None
    rates: Rates | None = None
    balance_nano: int | None = None
    """The available balance when the hold was taken."""
    asked_model: str = ""
    """The model that was named, if that can be one; `model` is one that the caller may use."""
    model: str = ""
    provider: str = ""
    attempts: int = 0
    failed: str = ""
    """The routes that failed, each with its cause."""
    stream: bool = False
    outcome: Outcome | None = None
    status: int | None = None
    """The status in the ledger: what the caller got, or would have got if it had stayed."""
    error_code: str | None = None
    """The code of an error reply, see `observations.find_code`."""
    tokens: Tokens = field(default_factory=Tokens)
    cost_nano: int = 0
    estimated: bool = False
    first_byte_ms: int | None = None
    waited_seconds: float = 0.0
    """The time in which the caller's body, or a provider, was waited for."""
    held_bytes: int = 0
    """The request's part of its account's `Share`."""
    reply_bytes: int = 0
    """The reply's part of `held_bytes`."""
    console: Mapping[str, str] = field(default_factory=dict)
    """For the log line of a console request: method, template of the path, address of the visitor."""

    def note_failure(self, route: str, cause: str) -> None:
        """Note that a route did not serve the request."""
        self.failed += f"{'; ' if self.failed else ''}{route}: {cause}"

    def note_first_byte(self) -> None:
        """Note that the caller's first byte leaves now; later calls change nothing."""
        if self.first_byte_ms is None:
            self.first_byte_ms = int((time.monotonic() - self.started) * 1000)


def make_headers(call: Call) -> Mapping[str, str]:
    """Make the headers that every reply to this request carries."""
    headers = dict(call.dialect.reply_headers(call.request_id))
    if call.rates is not None and (limits := call.rates.list_limits(time.monotonic())):
        headers.update(call.dialect.limit_headers(limits, call.started_ms))
    if call.balance_nano is not None:
        headers["x-gateway-balance"] = format_amount(call.balance_nano)
    return headers
