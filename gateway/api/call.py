"""The record of one request: what more than one stage needs to know, and the facts for its log line.

What is logged or counted is never a key, a prompt or a reply.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from gateway.base.errors import GatewayError
from gateway.base.money import format_amount
from gateway.base.times import unix_ms
from gateway.dialects.wire.base import Caller
from gateway.dialects.wire.records import Upload
from gateway.ledger.base import Key, Settlement

if TYPE_CHECKING:
    from gateway.api.limits import Rates
    from gateway.api.state import Gateway  # which has the calls' shares

SERVER_ERROR: Final = 500
"""The lowest status that counts as a failure of the gateway or of a provider."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A reply of status 500 or above."""

    at_ms: int
    request_id: str
    status: int
    code: str | None
    provider: str | None


@dataclass(slots=True)
class Call:
    """One request: its state, and the facts for its log line."""

    gateway: Gateway
    request_id: str
    dialect: Caller
    started: float
    """Monotonic seconds."""
    started_ms: int
    """Wall clock, Unix milliseconds."""
    surface: str = ""
    """The request's path in metrics, or the part of the application it belongs to."""
    key: Key | None = None
    rates: Rates | None = None
    balance_nano: int | None = None
    """The available balance when the hold was taken."""
    asked_model: str = ""
    """The model that the request names, if it can be a name; `model` is set once the caller may use
    it."""
    model: str = ""
    provider: str = ""
    upstream_model: str = ""
    attempts: int = 0
    failed: str = ""
    """The routes that failed, each with its cause."""
    stream: bool = False
    settlement: Settlement | None = None
    """The first one, as it is in the ledger; its status is the one sent to the caller, or that would have
    been sent had it stayed. None for a request that was not admitted, and while it is in flight."""
    error_code: str | None = None
    """The code of an error reply, see `find_code`."""
    first_byte_ms: int | None = None
    waited_seconds: float = 0.0
    """The time spent waiting for the caller's body or a provider."""
    buffered_bytes: int = 0
    """The request's part of its account's `Share`."""
    reply_bytes: int = 0
    """The reply's part of `buffered_bytes`."""
    upload: Upload | None = None
    """The file that arrived with the fields of its request."""
    visit: Mapping[str, str] = field(default_factory=dict)
    """For the log line of a request to the console or an unknown path: method, path, address of the
    visitor."""

    def note_failure(self, route: str, cause: str) -> None:
        """Note that a route did not serve the request."""
        self.failed += f"{'; ' if self.failed else ''}{route}: {cause}"

    def note_first_byte(self) -> None:
        """Note that the caller's first byte leaves now; later calls change nothing."""
        if self.first_byte_ms is None:
            self.first_byte_ms = int((time.monotonic() - self.started) * 1000)

    def end(self, status: int) -> None:
        """Tell the log and metrics that the request has ended; keep a failure.

        `status` is the reply's. If the request was settled, the settlement's counts.
        """
        if self.settlement is not None:
            status = self.settlement.status
        if status >= SERVER_ERROR:
            provider = self.provider or None
            failure = Failure(unix_ms(), self.request_id, status, self.error_code, provider)
            self.gateway.failures.append(failure)
        for listener in self.gateway.listeners:
            listener(self, status)


def make_headers(call: Call) -> Mapping[str, str]:
    """Make the headers that every reply to this request carries."""
    headers = call.dialect.reply_headers(call.request_id)
    if call.rates is not None and (limits := call.rates.list_limits(time.monotonic())):
        headers.update(call.dialect.limit_headers(limits, call.started_ms))
    if call.balance_nano is not None:
        headers["x-gateway-balance"] = format_amount(call.balance_nano)
    return headers


_PLAIN: Final = re.compile(r"[a-z_]{1,40}")


def find_code(error: GatewayError) -> str:
    """Return an error's code for logs and tables, or its type: a provider's code could be any text."""
    return error.code if error.code and _PLAIN.fullmatch(error.code) else error.type
