"""The dashboard for Grafana. Its queries are checked against the families of `counts`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import orjson

from gateway.base.money import NANO
from gateway.extras.metrics.counts import GAUGES, Metrics
from gateway.extras.metrics.families import Family, Labels

SCHEMA_VERSION: Final = 39
"""The schema of Grafana 11, which later versions read, too."""
_SIZE: Final = 8
"""Width and height of a panel in Grafana's units, so that three fill a row of 24."""
_IN_ROW: Final = 3
"""Panels in a row, which has 24 units of width."""
_RATE: Final = "[$__rate_interval]"
_SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}


@dataclass(frozen=True, slots=True)
class _Query:
    """A query of a family, and the legend of its series."""

    family: str
    legend: str = ""
    by: Labels = ()
    only: str = ""
    """The labels that select some of its series."""
    quantile: float | None = None
    """The quantile of a histogram to show; None shows the mean."""
    hourly: int = 0
    """If set, a counter's growth per hour is shown, divided by this; 0 shows its growth per second."""

    def write(self, families: Mapping[str, Family]) -> str:
        """Write the query in PromQL. Raises LookupError for an unknown family or label."""
        family = families[self.family]
        if missing := {*self.by} - {*family.labels}:
            raise LookupError(f"{self.family} has no label {missing}")
        name = f"{family.name}{self.only}"
        match family.kind:
            case "gauge":
                return name
            case "histogram" if self.quantile is None:
                return f"rate({name}_sum{_RATE}) / rate({name}_count{_RATE})"
            case "histogram":
                by = ", ".join(("le", *self.by))
                return f"histogram_quantile({self.quantile}, sum by ({by}) (rate({name}_bucket{_RATE})))"
            case _:
                grown = f"increase({name}[1h])" if self.hourly else f"rate({name}{_RATE})"
                by = f" by ({', '.join(self.by)}) " if self.by else ""
                units = f" / {self.hourly}" if self.hourly > 1 else ""
                return f"sum{by}({grown}){units}"

    def name(self) -> str:
        share = "" if self.quantile is None else f"p{self.quantile * 100:.0f}"
        return " ".join(filter(None, (share, self.legend, *(f"{{{{{one}}}}}" for one in self.by))))


def _quantiles(family: str, by: Labels = (), *, most: float = 0.99) -> tuple[_Query, ...]:
    return tuple(_Query(family, by=by, quantile=one) for one in (0.5, most))


_MODEL: Final = ("gen_ai_request_model",)
_USAGE: Final = "gen_ai_client_inference_usage_{}_tokens_total"
_PANELS: Final[Sequence[tuple[str, str, Sequence[_Query], str]]] = (
    ("Requests by status", "reqps", [_Query("gateway_requests_total", by=("status",))], ""),
    (
        "Failures by whose fault",
        "reqps",
        [_Query("gateway_requests_total", by=("error_type", "provider"), only='{error_type!=""}')],
        "",
    ),
    ("Refusals by reason", "reqps", [_Query("gateway_refused_total", by=("reason",))], ""),
    (
        "Time to first byte, p50 and p95",
        "s",
        _quantiles("gen_ai_server_time_to_first_token_seconds", _MODEL, most=0.95),
        "",
    ),
    (
        "Total time, p50 and p95",
        "s",
        _quantiles("gen_ai_server_request_duration_seconds", _MODEL, most=0.95),
        "",
    ),
    (
        "The gateway's own time, p50 and p99",
        "s",
        _quantiles("gateway_overhead_seconds", ("surface",)),
        "",
    ),
    (
        "Tokens per second by class",
        "short",
        [
            _Query(_USAGE.format("input"), "input"),
            _Query(_USAGE.format("cache_read_input"), "of these read from the cache"),
            _Query(_USAGE.format("cache_write_input"), "of these written to the cache"),
            _Query(_USAGE.format("output"), "output"),
        ],
        "",
    ),
    (
        "Charges per hour by model, in units of the currency",
        "short",
        [_Query("gateway_charged_nano_total", by=("model",), hourly=NANO)],
        "",
    ),
    (
        "Estimated charges per hour",
        "short",
        [_Query("gateway_estimated_total", by=("model",), hourly=1)],
        "A provider that reports no usage: its replies are charged by an estimate.",
    ),
    (
        "In flight",
        "short",
        [_Query("gateway_in_flight", "requests"), _Query("gateway_holds", "holds")],
        "",
    ),
    (
        "Providers that come last",
        "short",
        [_Query("gateway_breaker_open", by=("provider",))],
        "1 while the breaker of a provider or of one of its models is open, or it asked for a pause.",
    ),
    ("The ledger's commits, p50 and p99", "s", _quantiles("gateway_commit_seconds"), ""),
    ("Requests per commit, mean", "short", [_Query("gateway_commit_requests", "requests")], ""),
    ("Lag of the event loop, p50 and p99", "s", _quantiles("gateway_loop_lag_seconds"), ""),
    ("Write-ahead log", "bytes", [_Query("gateway_wal_bytes", "bytes of the log")], ""),
    ("The ledger", "short", [_Query("gateway_ledger_writable", "1 = commits work")], ""),
)
"""Title, unit, queries and description of each panel."""


def make_dashboard() -> bytes:
    """Write the dashboard as Grafana's JSON."""
    return orjson.dumps(
        {
            "title": "LLM gateway",
            "uid": "llm-gateway",
            "schemaVersion": SCHEMA_VERSION,
            "version": 1,
            "editable": True,
            "refresh": "30s",
            "time": {"from": "now-6h", "to": "now"},
            "tags": ["llm"],
            "templating": {
                "list": [
                    {
                        "name": "datasource",
                        "label": "Prometheus",
                        "type": "datasource",
                        "query": "prometheus",
                    }
                ]
            },
            "panels": list(_make_panels()),
        },
        option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE,
    )


def _make_panels() -> Iterator[dict[str, object]]:
    known = [*Metrics().families, *(family for family, _ in GAUGES)]
    families = {one.name: one for one in known}
    for number, (title, unit, queries, said) in enumerate(_PANELS):
        targets = [
            {"refId": letter, "expr": query.write(families), "legendFormat": query.name()}
            for letter, query in zip("ABCDEF", queries, strict=False)
        ]
        row, column = divmod(number, _IN_ROW)
        yield {
            "id": number + 1,
            "title": title,
            "description": said,
            "type": "timeseries",
            "datasource": _SOURCE,
            "gridPos": {"x": column * _SIZE, "y": row * _SIZE, "w": _SIZE, "h": _SIZE},
            "fieldConfig": {"defaults": {"unit": unit, "min": 0}, "overrides": []},
            "targets": targets,
        }
