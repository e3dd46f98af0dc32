"""The numbers of `GET /metrics`: counts, times and tokens of all requests, for Prometheus.

First the families, and their text in Prometheus's exposition format 0.0.4, without I/O. A family has
one series for each tuple of label values that was seen. It is counted on the event loop; `freeze`
copies it there, and the text of the copies is made in another thread. Then the gateway's own: what
is counted when a request ends, when a commit ends, and read at a scrape.

Nothing is counted unless `[metrics] listen` is set. Every label has a bounded set of values: no
key, account, path or request id is one. Names follow OpenTelemetry's conventions for generative AI
where there is one: `gen_ai.server.request.duration` is `gen_ai_server_request_duration_seconds`.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Final, Protocol

from gateway.api.state import Call, Gateway
from gateway.ledger.call_records import Outcome
from gateway.money import Tokens

Labels = tuple[str, ...]
"""The values of a family's labels, in their order."""

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES: Final = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class Name:
    """The name of a family, its labels, and what it counts or measures."""

    name: str
    labels: tuple[str, ...]
    doc: str


class Family(Protocol):
    """Numbers under one name."""

    name: Name

    def freeze(self) -> Callable[[], Iterator[str]]:
        """Copy the present values; return what makes their lines."""


class Counter:
    """Numbers that only grow."""

    __slots__ = ("_values", "name")

    def __init__(self, name: str, doc: str, labels: Labels = ()) -> None:
        self.name = Name(name, labels, doc)
        self._values: dict[Labels, int] = {}

    def add(self, labels: Labels, amount: int = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + amount

    def freeze(self) -> Callable[[], Iterator[str]]:
        # A copy, as the text is made in a thread while the counting goes on.
        values = dict(self._values)
        return lambda: render_values(self.name, "counter", values)


class Histogram:
    """Measured values, counted by the smallest bound that is not below them."""

    __slots__ = ("_bounds", "_counts", "_sums", "name")

    def __init__(self, name: str, doc: str, bounds: Sequence[float], labels: Labels = ()) -> None:
        self.name = Name(name, labels, doc)
        self._bounds = bounds
        self._counts: dict[Labels, list[int]] = {}
        self._sums: dict[Labels, float] = {}

    def observe(self, labels: Labels, value: float) -> None:
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._bounds) + 1)
            self._sums[labels] = 0.0
        counts[bisect_left(self._bounds, value)] += 1
        self._sums[labels] += value

    def freeze(self) -> Callable[[], Iterator[str]]:
        counts, sums = {labels: [*one] for labels, one in self._counts.items()}, dict(self._sums)
        return lambda: self._render(counts, sums)

    def _render(
        self, counts: Mapping[Labels, Sequence[int]], sums: Mapping[Labels, float]
    ) -> Iterator[str]:
        name, bounds = self.name, [*map(format_number, self._bounds), "+Inf"]
        yield from _render_head(name, "histogram")
        for labels, numbers in counts.items():
            shown, total = _render_labels(name.labels, labels), 0
            for bound, number in zip(bounds, numbers, strict=True):
                total += number
                yield f'{name.name}_bucket{{{shown}{"," if shown else ""}le="{bound}"}} {total}\n'
            yield f"{name.name}_sum{_brace(shown)} {format_number(sums[labels])}\n"
            yield f"{name.name}_count{_brace(shown)} {total}\n"


def render_gauge(name: Name, values: Mapping[Labels, float]) -> Iterator[str]:
    """Make the lines of values that rise and fall, as they are at a scrape."""
    return render_values(name, "gauge", values)


def render_values(name: Name, kind: str, values: Mapping[Labels, float]) -> Iterator[str]:
    yield from _render_head(name, kind)
    for labels, value in values.items():
        shown = _brace(_render_labels(name.labels, labels))
        yield f"{name.name}{shown} {format_number(value)}\n"


def format_number(value: float) -> str:
    """Format a number as Prometheus reads it; whole numbers of any size stay exact."""
    return str(value) if isinstance(value, int) else repr(value).removesuffix(".0")


def _render_head(name: Name, kind: str) -> Iterable[str]:
    return (f"# HELP {name.name} {name.doc}\n", f"# TYPE {name.name} {kind}\n")


def _render_labels(names: Labels, values: Labels) -> str:
    pairs = zip(names, values, strict=True)
    return ",".join(f'{name}="{value.translate(_ESCAPES)}"' for name, value in pairs)


def _brace(labels: str) -> str:
    return f"{{{labels}}}" if labels else ""


SECONDS: Final = (
    0.01,
    0.02,
    0.04,
    0.08,
    0.16,
    0.32,
    0.64,
    1.28,
    2.56,
    5.12,
    10.24,
    20.48,
    40.96,
    81.92,
)
"""The bounds that OpenTelemetry recommends for the durations of models' operations."""
SHORT_SECONDS: Final = (
    0.0005,
    0.001,
    0.002,
    0.004,
    0.008,
    0.016,
    0.032,
    0.064,
    0.128,
    0.5,
    2.0,
    5.0,
)
"""Bounds for what takes milliseconds: the gateway's own work, commits, the event loop's lag."""
BATCHES: Final = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
"""Bounds for the requests of a commit; 512 is the most."""

OPERATIONS: Final = {
    "embeddings": "embeddings",
    "completions": "text_completion",
    "images": "generate_content",
    "rerank": "rerank",
    "audio/speech": "speech",
    "audio/transcriptions": "transcription",
}
"""The operation of each surface that is not `chat`, as OpenTelemetry names it; those of ranks and audio are ours."""
OTHER: Final = "_other"
"""Stands for all models that are not configured."""
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
"""The side whose fault an outcome is; "" is nobody's."""

_MODEL: Final = ("gen_ai_request_model", "gen_ai_provider_name")
_OPERATION: Final = ("gen_ai_operation_name", *_MODEL)
HOLDS: Final = Name("gateway_holds", (), "Requests whose charge or void is not committed")
IN_FLIGHT: Final = Name("gateway_in_flight", (), "Requests in flight")
BREAKERS: Final = Name(
    "gateway_breaker_open", ("provider",), "1 while a provider, or a model of it, comes last"
)
LOG_BYTES: Final = Name("gateway_wal_bytes", (), "Bytes of the ledger's write-ahead log")
WRITABLE: Final = Name("gateway_ledger_writable", (), "1 while commits of the ledger work")


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
        self._completions = _Completions()
        self._commit = Histogram(
            "gateway_commit_seconds", "Time of a commit of the ledger", SHORT_SECONDS
        )
        self._batch = Histogram(
            "gateway_commit_requests", "Admissions and settlements in a commit", BATCHES
        )
        self._lag = Histogram(
            "gateway_loop_lag_seconds", "How late the event loop ran what was due", SHORT_SECONDS
        )

    @property
    def families(self) -> list[Family]:
        """All that is counted; gauges are read at the scrape."""
        requests = [self._requests, self._refused, *self._completions.families]
        return [*requests, self._commit, self._batch, self._lag]

    def note_commit(self, requests: int, seconds: float) -> None:
        self._commit.observe((), seconds)
        self._batch.observe((), requests)

    def note_lag(self, seconds: float) -> None:
        self._lag.observe((), seconds)

    def note_call(self, call: Call, status: int) -> None:
        """Count a request that ended with this status."""
        model, fault = _name_model(call), find_fault(call.outcome, status)
        # Admission names a provider before any is asked.
        provider = call.provider if call.attempts else ""
        self._requests.add((call.surface, model, provider, str(status), fault))
        if call.outcome is not None:
            self._completions.note(call, model, provider, fault)
        elif status >= _CLIENT_ERROR:
            self._refused.add((call.error_code or str(status),))

    def freeze(self, gateway: Gateway) -> Callable[[], str]:
        """Read everything as it is now; return what makes the text, in any thread."""
        lines = [family.freeze() for family in self.families]
        gauges = _read_gauges(gateway)
        return lambda: "".join(chain(*(make() for make in lines), _render_gauges(gauges)))


class _Completions:
    """The families of requests that were admitted: times, tokens and charges."""

    def __init__(self) -> None:
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

    @property
    def families(self) -> list[Family]:
        times = (self._duration, self._first_token, self._overhead)
        return [*times, *self._tokens, self._charged, self._estimated]

    def note(self, call: Call, model: str, provider: str, fault: str) -> None:
        seconds = time.monotonic() - call.started
        operation = OPERATIONS.get(call.surface, "chat")
        labels = (operation, model, provider)
        self._duration.observe((*labels, fault), seconds)
        if call.first_byte_ms is not None:
            self._first_token.observe(labels, call.first_byte_ms / 1000)
        self._overhead.observe((call.surface,), max(seconds - call.waited_seconds, 0.0))
        self._count_tokens(call.tokens, (model, provider))
        self._charged.add((model,), call.cost_nano)
        if call.estimated:
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
    # One series for all of them, as callers make names up.
    return OTHER if call.error_code == "model_not_found" else ""


def _read_gauges(gateway: Gateway) -> list[tuple[Name, dict[Labels, float]]]:
    ledger = gateway.ledger
    breakers: dict[Labels, float] = {
        (name,): int(state.describe_breaker()[0] != "closed" or bool(state.list_troubled()))
        for name, state in gateway.routes.providers.items()
    }
    return [
        (HOLDS, {(): ledger.open_holds}),
        (IN_FLIGHT, {(): gateway.in_flight}),
        (BREAKERS, breakers),
        (LOG_BYTES, {(): ledger.log_bytes}),
        (WRITABLE, {(): int(ledger.writable)}),
    ]


def _render_gauges(gauges: Iterable[tuple[Name, Mapping[Labels, float]]]) -> Iterator[str]:
    return chain.from_iterable(render_gauge(name, values) for name, values in gauges)
