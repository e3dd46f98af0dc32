"""`GET /metrics` at an address of its own: counts, times and tokens of all requests, for Prometheus.

Without this extra, requests appear only in the log, and nothing is counted for a monitoring system.

settings   the table [metrics] of gateway.toml
counts     the families of the gateway, and the code that adds to them
families   counters, gauges, histograms, and their text
serving    serves the address, and measures commits and the loop
dashboard  a dashboard for Grafana with the families
verbs      the command that writes the dashboard; the console's page Health links it
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gateway.extension import Extra, Started, Table

if TYPE_CHECKING:
    from gateway.api.state import Gateway


def _find_settings() -> type:
    from gateway.extras.metrics.settings import Metrics

    return Metrics


def _start(gateway: Gateway) -> Started:
    from gateway.extras.metrics.settings import Metrics

    address = gateway.config.find(Metrics).listen
    if address is None:
        return Started()
    from gateway.extras.metrics.serving import start

    return start(gateway, address)


def _add_to_console() -> object:
    from gateway.extras.console.additions import Addition
    from gateway.extras.metrics.dashboard import make_dashboard

    return Addition(downloads={"grafana.json": make_dashboard()})


EXTRA = Extra(
    tables={"metrics": Table(_find_settings, at_restart="metrics.listen")},
    first_words={"dashboard": "Write a dashboard for Grafana, of what GET /metrics tells."},
    adds_to={"console": _add_to_console},
    start=_start,
)
