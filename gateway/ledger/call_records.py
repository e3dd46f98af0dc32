"""Records of calls: sums of usage, receipts with the words for how a call ended, and lists of calls.

The API, the console and the command line show the same receipt and the same words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, field
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

from gateway.base import money
from gateway.base.prices import AppliedPrice
from gateway.base.times import format_iso
from gateway.ledger.observation_records import UpstreamFailure

UsageGroup = Literal["day", "model", "key", "account", "provider"]
ChartUnit = Literal["day", "hour"]


@dataclass(frozen=True, slots=True)
class Spent:
    """Charges of a key or an account for requests that ended in the last UTC days, with today."""

    today_nano: int
    week_nano: int
    """The last 7 days."""
    month_nano: int
    """The last 30 days."""


@dataclass(frozen=True, slots=True)
class UsageFilter:
    """A filter by the UTC day of the end, counted from the epoch; both days are inclusive."""

    account_id: int | None
    """None for all accounts."""
    first_day: int
    last_day: int
    key_id: str | None = None
    model: str | None = None


class Usage(NamedTuple):
    """A sum of posted requests. It is a tuple because a chart has thousands."""

    requests: int = 0
    input_tokens: int = 0
    cached_input_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    cost_nano: int = 0

    @property
    def tokens(self) -> money.Tokens:
        return money.Tokens(*self[1:5])


def sum_costs(costs: Iterable[ProviderCosts]) -> ProviderCosts:
    return ProviderCosts(*map(sum, zip(ProviderCosts(), *costs, strict=True)))


def sum_usage(usages: Iterable[Usage]) -> Usage:
    return Usage(*map(sum, zip(*usages, strict=True)))


class ProviderCosts(NamedTuple):
    """Sums of providers' bills for charged requests; only operators may see them."""

    known: int = 0
    """Requests with a known provider cost: prices for it were configured."""
    charged_nano: int = 0
    """The charges of these requests."""
    provider_cost_nano: int = 0
    reported: int = 0
    """Requests whose provider reported its charge."""
    reported_nano: int = 0
    compared: int = 0
    """Requests whose cost is both computed and reported."""
    difference_nano: int = 0
    """The excess of the reported over the computed costs."""

    @property
    def margin_nano(self) -> int:
        return self.charged_nano - self.provider_cost_nano


class UsagePoint(NamedTuple):
    """The sum of one model in one day or hour, counted from the epoch."""

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
    """Sums read from one state of the ledger, so that they agree with each other."""

    points: tuple[UsagePoint, ...]
    """Days or hours with calls, the oldest first."""
    keys: tuple[tuple[KeyLabel, Usage], ...]
    """The most expensive first; empty unless sums by key were requested."""
    models: tuple[str, ...]
    """All models used, whether or not a model is selected."""


@dataclass(frozen=True, slots=True)
class OverviewView:
    days: dict[int, Usage]
    """Days with calls."""
    active_keys: int
    has_key: bool
    """True also if all its keys are revoked or expired."""
    has_call: bool
    """True if a call was ever charged."""
    expiring: tuple[tuple[KeyLabel, int], ...]
    """Working keys that expire soon, with the time in Unix milliseconds; the earliest first."""


@dataclass(frozen=True, slots=True)
class GatewayView:
    """Balances, failures and credits of all accounts together; days are counted from the epoch."""

    failed: dict[int, int]
    """Requests that ended without a charge, by day."""
    credited_nano: dict[int, int]
    """Credit that was sold or given, by day: credits of operators and codes."""
    owed_nano: int
    """The sum of positive balances."""
    overdrawn_nano: int
    """The sum of negative balances, as a positive amount."""


@dataclass(frozen=True, slots=True)
class StatementLine:
    """An account's movements in a period: opening balance plus movements is the closing balance."""

    account: str
    opening_nano: int
    credit_nano: int
    codes_nano: int
    cards_nano: int
    charges_nano: int
    """Negative, as it is a movement."""
    corrections_nano: int

    @property
    def amounts_nano(self) -> tuple[int, ...]:
        """Return the opening balance and the movements."""
        return astuple(self)[1:]

    @property
    def closing_nano(self) -> int:
        return sum(self.amounts_nano)


def sum_statement(lines: Iterable[StatementLine]) -> StatementLine:
    """Return the total of all accounts."""
    amounts = [one.amounts_nano for one in lines]
    return StatementLine("total", *map(sum, zip((0,) * 6, *amounts, strict=True)))


Outcome = Literal[
    "pending",  # in flight
    "complete",  # the reply is complete
    "caller_left",  # the caller went away
    "upstream_error",  # the provider failed, refused or broke off
    "upstream_timeout",  # a deadline of the gateway passed
    "rejected",  # the upstream rejected the caller's request
    "ledger_error",  # the charge could not be written
    "shutdown",  # the gateway was stopped
    "internal_error",  # a fault of the gateway
    "interrupted",  # the gateway died; its next start, or another node, noticed it
]


@dataclass(frozen=True, slots=True)
class Correction:
    """A correction that the operator made to a request's charge."""

    amount_nano: int
    """Positive amounts were added to the balance."""
    note: str
    created_ms: int


@dataclass(frozen=True, slots=True)
class Receipt:
    """The ledger's record of one request, for its caller."""

    request_id: str
    key_id: str
    state: Literal["pending", "posted", "voided"]
    outcome: Outcome
    model: str
    provider: str
    stream: bool
    price: AppliedPrice
    hold_nano: int
    started_ms: int
    attempts: int | None = None
    """How many routes were tried; None if the request is pending or interrupted."""
    status: int | None = None
    """None if the request is pending or interrupted."""
    tokens: money.Tokens = field(default_factory=money.Tokens)
    tool_calls: Mapping[str, int] = field(default_factory=money.count_none)
    cost_nano: int = 0
    estimated: bool = False
    first_byte_ms: int | None = None
    """Time from admission to the caller's first byte."""
    ended_ms: int | None = None
    """For interrupted requests, the time of the recovery or the take-over."""
    corrections: tuple[Correction, ...] = ()
    """Oldest first."""


@dataclass(frozen=True, slots=True)
class OutcomeWords:
    """An outcome in words."""

    by: Literal["caller", "upstream", "gateway"] | None
    """Who ended the request; None while it is in flight."""
    label: str
    """A few words, for a column."""
    sentence: str


OUTCOME_WORDS: Final[Mapping[Outcome, OutcomeWords]] = MappingProxyType(
    {
        "pending": OutcomeWords(None, "in flight", "The call is in flight."),
        "complete": OutcomeWords("upstream", "done", "The reply is complete."),
        "caller_left": OutcomeWords("caller", "caller left", "The caller left before the end."),
        "upstream_error": OutcomeWords(
            "upstream", "provider failed", "The provider failed, refused the call or broke off."
        ),
        "upstream_timeout": OutcomeWords(
            "gateway",
            "provider too slow",
            "The gateway ended the call, because the provider was too slow.",
        ),
        "rejected": OutcomeWords(
            "upstream", "rejected", "The provider rejected the request: it found fault with it."
        ),
        "ledger_error": OutcomeWords(
            "gateway",
            "not recorded",
            "The gateway could not record the charge, so it kept the reply back.",
        ),
        "shutdown": OutcomeWords(
            "gateway", "gateway stopped", "The gateway was stopped before the end."
        ),
        "internal_error": OutcomeWords(
            "gateway",
            "gateway failed",
            "The gateway failed by a fault of its own; its log says more under the request id.",
        ),
        "interrupted": OutcomeWords(
            "gateway", "interrupted", "The gateway died during the call; it charged nothing for it."
        ),
    }
)


def describe_receipt(
    receipt: Receipt, currency: str, *, for_operator: bool = False
) -> dict[str, object]:
    """Make the JSON of a receipt: money as a decimal string and as integer nano-units."""
    ending = OUTCOME_WORDS[receipt.outcome]
    return {
        "request_id": receipt.request_id,
        "state": receipt.state,
        "outcome": receipt.outcome,
        "ended_by": ending.by,
        "explanation": ending.sentence,
        "status": receipt.status,
        "model": receipt.model,
        "provider": receipt.provider,
        "attempts": receipt.attempts,
        "stream": receipt.stream,
        "currency": currency,
        **money.describe_amount("hold", receipt.hold_nano),
        **money.describe_amount("cost", receipt.cost_nano),
        "estimated": receipt.estimated,
        "tokens": money.format_tokens(receipt.tokens),
        **money.describe_tokens(receipt.tokens),
        "cache_write_tokens": receipt.tokens.cache_write,
        "cache_write_1h_tokens": receipt.tokens.cache_write_1h,
        "web_searches": receipt.tool_calls.get(money.WEB_SEARCH, 0),
        "tool_calls": dict(receipt.tool_calls),
        "price": money.describe_price(receipt.price.price, for_operator=for_operator),
        "price_rule": receipt.price.rule or None,
        "started": format_iso(receipt.started_ms),
        "first_byte_ms": receipt.first_byte_ms,
        "ended": format_iso(receipt.ended_ms),
        "corrections": [_describe_correction(one) for one in receipt.corrections],
    }


def _describe_correction(correction: Correction) -> dict[str, object]:
    """Make the JSON of a later correction; the receipt's `cost` stays what was charged."""
    return {
        **money.describe_amount("amount", correction.amount_nano),
        "note": correction.note,
        "created": format_iso(correction.created_ms),
    }


OutcomeFilter = Outcome | Literal["failed"]
"""An outcome, or all but `pending` and `complete`."""


@dataclass(frozen=True, slots=True)
class CallFilter:
    """A filter for calls. Fields that are None do not filter."""

    account_id: int | None = None
    request_id: str | None = None
    key_id: str | None = None
    model: str | None = None
    provider: str | None = None
    outcome: OutcomeFilter | None = None
    status: int | None = None
    slower_than_ms: int | None = None
    """Calls that took longer. Interrupted calls never match: they ended at the next start."""
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
    tokens: money.Tokens
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
