"""What the application and each request carry: every key under which aiohttp keeps our things."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import web

from gateway.config import Config
from gateway.dialects.base import ErrorDialect
from gateway.ledger.base import Key, Ledger, Outcome
from gateway.limits import KeyRates, make_rates
from gateway.money import Tokens, format_amount

if TYPE_CHECKING:
    from gateway.routing import Routes
    from gateway.watch import Watch


@dataclass(slots=True)
class Call:
    """One request on its way: what the middlewares found out, and what the log line will say."""

    request_id: str
    dialect: ErrorDialect
    started: float
    """Monotonic seconds."""
    started_ms: int
    """Wall clock, Unix milliseconds."""
    key: Key | None = None
    rates: KeyRates | None = None
    balance_nano: int | None = None
    """What was available when the hold was taken."""
    model: str = ""
    provider: str = ""
    attempts: int = 0
    stream: bool = False
    outcome: Outcome | None = None
    status: int | None = None
    """As recorded in the ledger: what the caller got, or would have got had it stayed."""
    error_code: str | None = None
    """What an error reply said, in a word."""
    tokens: Tokens = field(default_factory=Tokens)
    cost_nano: int = 0
    first_byte_ms: int | None = None
    body_bytes: int = 0
    """What is held of the budget for request bodies."""


class Gateway:
    """What all requests share. `in_flight` and `body_bytes` count what has been let in."""

    __slots__ = (
        "_rates",
        "body_bytes",
        "config",
        "draining",
        "in_flight",
        "ledger",
        "log_call",
        "routes",
        "watch",
    )

    def __init__(
        self,
        config: Config,
        ledger: Ledger,
        routes: Routes,
        watch: Watch,
        log_call: Callable[[Call, int], None],
    ) -> None:
        self.config = config
        self.log_call = log_call
        self.ledger = ledger
        self.routes = routes
        self.watch = watch
        self.in_flight = 0
        self.body_bytes = 0
        self.draining = False
        self._rates: dict[str, tuple[tuple[int, int, int], KeyRates]] = {}

    def find_rates(self, key: Key, now: float) -> KeyRates:
        """The key's rates, begun anew when its limits were changed."""
        defaults = self.config.limits
        limits = (
            _first(key.requests_per_minute, defaults.requests_per_minute),
            _first(key.tokens_per_minute, defaults.tokens_per_minute),
            _first(key.concurrency, defaults.concurrency),
        )
        known = self._rates.get(key.id)
        if known is not None and known[0] == limits:
            return known[1]
        rates = make_rates(
            requests_per_minute=limits[0],
            tokens_per_minute=limits[1],
            concurrency=limits[2],
            now=now,
        )
        if known is not None:  # those in flight will release the object they were counted in by
            rates = known[1].renew(rates)
        self._rates[key.id] = (limits, rates)
        return rates


GATEWAY: Final = web.AppKey("gateway", Gateway)
CALL: Final = web.RequestKey("call", Call)


def make_request_id(now_ms: int) -> str:
    """Ordered by time, so that rows of the ledger are inserted side by side; 64 random bits."""
    return f"req_{now_ms:012x}{_random.getrandbits(64):016x}"


_random: Final = random.Random(os.urandom(32))  # noqa: S311 - ids are names, not secrets


def make_headers(call: Call, now: float) -> Mapping[str, str]:
    """The headers that every reply to this call carries."""
    headers = dict(call.dialect.reply_headers(call.request_id))
    if call.rates is not None:
        headers.update(call.rates.describe(now))
        if call.dialect.name == "messages":
            headers.update(call.rates.describe_for_messages(now, call.started_ms))
    if call.balance_nano is not None:
        headers["x-gateway-balance"] = format_amount(call.balance_nano)
    return headers


def _first(own: int | None, default: int) -> int:
    return default if own is None else own
