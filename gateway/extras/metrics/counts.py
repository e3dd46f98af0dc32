"""The numbers of `GET /metrics`: counts, times and tokens of all requests, for Prometheus.

Counters change when a request or a commit ends. Gauges are read at a scrape.

Every label has a bounded set of values: no key, account, path or request id is one. Names follow
OpenTelemetry's conventions for generative AI where there is one: `gen_ai.server.request.duration` is
`gen_ai_server_request_duration_seconds`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Final

from gateway.api.front import Call
from gateway.api.state import Gateway
from gateway.base.money import Tokens
from gateway.extras.metrics.families import Counter, Family, Histogram, Labels
from gateway.ledger.base import Settlement
from gateway.ledger.call_records import Outcome

SECONDS: Final = tuple(0.01 * 2**number for number in range(14))
"""The bounds that OpenTelemetry recommends for the durations of models' operations: up to 81.92."""
SHORT_SECONDS: Final = (*(0.0005 * 2**number for number in range(9)), 0.5, 2.0, 5.0)
"""Bounds for durations of milliseconds: the gateway's own work, commits, the event loop's lag."""
BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Bounds for the number of requests in a commit, which is at most 512."""

OTHER: Final = "_other"
"""The label of all models that are not configured."""
_CLIENT_ERROR: Final = 400
"""The first status that is an error."""
_SERVER_ERROR: Final = 500
"""The first status that is not the caller's fault."""
_TOKENS: Final = (
    ("input", "Input tokens, cached ones too"),
    ("output", "Output tokens"),
    ("cache_read_input", "Input tokens that a provider read from its cache"),
    ("cache_write_input", "Input tokens that a provider wrote to its cache"),
)
"""The classes of tokens in metrics, in the order in which `Metrics` counts them."""
_OWN: Final = (
    ("gateway_commit_seconds", "Time of a commit of the ledger", SHORT_SECONDS),
    ("gateway_commit_requests", "Admissions and settlements in a commit", BATCHES),
    ("gateway_loop_lag_seconds", "How late the event loop ran what was due", SHORT_SECONDS),
)
"""Families about the process instead of requests."""

FAULTS: Final[Mapping[Outcome, str]] = {
    "pending": "gateway",
    "complete": "",
    "caller_left": "caller",
    "upstream_error": "upstream",
    "upstream_timeout": "upstream",
    "rejected": "caller",
    "ledger_error": "gateway",
    "shutdown": "gateway",
    "internal_error": "gateway",
    "interrupted": "gateway",
}
"""The party at fault for an outcome; "" for nobody."""

_MODEL: Final = ("gen_ai_request_model", "gen_ai_provider_name")
_OPERATION: Final = ("gen_ai_operation_name", *_MODEL)


class Metrics:
    """All families of one process."""

    def __init__(self) -> None:
        self._requests = Counter(
            "gateway_requests_total",
            "Requests that ended; error_type is whose fault it was: caller, upstream or gateway",
            ("surface", "model", "provider", "status", "error_type"),
        )
        self._refused = Counter(
            "gateway_refused_total", "Requests refused before a provider had them", ("reason",)
        )
        self._duration = Histogram(
            "gen_ai_server_request_duration_seconds",
            "Time from a request's head to the end of its reply",
            SECONDS,
            (*_OPERATION, "error_type"),
        )
        self._first_token = Histogram(
            "gen_ai_server_time_to_first_token_seconds",
            "Time from a request's head to the first byte of its reply",
            SECONDS,
            _OPERATION,
        )
        self._overhead = Histogram(
            "gateway_overhead_seconds",
            "Time of a completion that was not spent waiting for the caller's body or a provider",
            SHORT_SECONDS,
            ("surface",),
        )
        self._tokens = [
            Counter(f"gen_ai_client_inference_usage_{name}_tokens_total", doc, _MODEL)
            for name, doc in _TOKENS
        ]
        charged = "Charges in nano-units of the currency"
        self._charged = Counter("gateway_charged_nano_total", charged, ("model",))
        estimated = "Charges that were estimated, without a usage"
        self._estimated = Counter("gateway_estimated_total", estimated, ("model",))
        self._commit, self._batch, self._lag = (Histogram(*one) for one in _OWN)

    @property
    def families(self) -> list[Counter | Histogram]:
        """All counters; gauges are read at the scrape."""
        times = (self._duration, self._first_token, self._overhead)
        counts = (*self._tokens, self._charged, self._estimated)
        own = (self._commit, self._batch, self._lag)
        return [self._requests, self._refused, *times, *counts, *own]

    def note_commit(self, requests: int, seconds: float) -> None:
        self._commit.observe((), seconds)
        self._batch.observe((), requests)

    def note_lag(self, seconds: float) -> None:
        self._lag.observe((), seconds)

    def note_call(self, call: Call, status: int) -> None:
        """Count a request that ended with this status."""
        settled = call.settlement
        model = _name_model(call)
        fault = find_fault(None if settled is None else settled.outcome, status)
        # Admission sets `provider` before any provider is asked.
        provider = call.provider if settled is not None and settled.attempts else ""
        self._requests.add((call.surface, model, provider, str(status), fault))
        if settled is not None:
            self._note_completion(call, settled, model, provider, fault)
        elif status >= _CLIENT_ERROR:
            self._refused.add((call.error_code or str(status),))

    def freeze(self, gateway: Gateway) -> Callable[[], str]:
        """Copy all present values; return a function that makes the text in any thread."""
        lines = [family.freeze() for family in self.families]
        lines += [family.render(read(gateway)) for family, read in GAUGES]
        return lambda: "".join(chain(*lines))

    def _note_completion(
        self, call: Call, settled: Settlement, model: str, provider: str, fault: str
    ) -> None:
        seconds = time.monotonic() - call.started
        labels = (call.dialect.operation, model, provider)
        self._duration.observe((*labels, fault), seconds)
        if settled.first_byte_ms is not None:
            self._first_token.observe(labels, settled.first_byte_ms / 1000)
        self._overhead.observe((call.surface,), max(seconds - call.waited_seconds, 0.0))
        self._count_tokens(settled.tokens, (model, provider))
        self._charged.add((model,), settled.cost_nano)
        if settled.estimated:
            self._estimated.add((model,))

    def _count_tokens(self, tokens: Tokens, labels: Labels) -> None:
        written = tokens.cache_write + tokens.cache_write_1h
        read_and_written = tokens.cached_input + written
        counts = (tokens.input + read_and_written, tokens.output, tokens.cached_input, written)
        for family, count in zip(self._tokens, counts, strict=True):
            if count:
                family.add(labels, count)


def find_fault(outcome: Outcome | None, status: int) -> str:
    """Return whose fault a reply is: "caller", "upstream", "gateway", or "" for nobody's."""
    if outcome is not None:
        return FAULTS[outcome]
    if status < _CLIENT_ERROR:
        return ""
    return "caller" if status < _SERVER_ERROR else "gateway"


def _name_model(call: Call) -> str:
    """Return a configured model, `OTHER`, or "" where the request concerns none."""
    if call.model:
        return call.model if call.model in call.gateway.routes.models else OTHER
    # All unknown names share one series, as callers can invent any number of names.
    return OTHER if call.error_code == "model_not_found" else ""


def _read_breakers(gateway: Gateway) -> dict[Labels, float]:
    return {
        (name,): int(state.describe_breaker()[0] != "closed" or bool(state.list_troubled()))
        for name, state in gateway.routes.providers.items()
    }


GAUGES: Final[tuple[tuple[Family, Callable[[Gateway], Mapping[Labels, float]]], ...]] = (
    (
        Family("gateway_holds", "Requests whose charge or void is not committed"),
        lambda gateway: {(): gateway.ledger.open_holds},
    ),
    (Family("gateway_in_flight", "Requests in flight"), lambda gateway: {(): gateway.in_flight}),
    (
        Family(
            "gateway_breaker_open",
            "1 while a provider, or a model of it, comes last",
            ("provider",),
        ),
        _read_breakers,
    ),
    (
        Family("gateway_wal_bytes", "Bytes of the ledger's write-ahead log"),
        lambda gateway: {(): gateway.ledger.log_bytes},
    ),
    (
        Family("gateway_ledger_writable", "1 while commits of the ledger work"),
        lambda gateway: {(): int(gateway.ledger.writable)},
    ),
)
"""Gauges, which are read at a scrape."""
