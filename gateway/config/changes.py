"""Two configurations compared: what a reload changes, and what only a restart can change."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping
from typing import Final

from gateway.config.records import Config

MAX_NAMED: Final = 5
"""Models or providers that a description names; it is a line of the log, and an event for ever."""


def keep_fixed(running: Config, read: Config) -> tuple[Config, tuple[str, ...]]:
    """Return `read` with what cannot change at run time as it is, and the keys that wait for a restart.

    The addresses and the database are open. The currency is the label of all that is stored as numbers:
    an amount must not change its meaning between two pages.
    """
    pairs = {
        "server.host": (running.server.host, read.server.host),
        "server.port": (running.server.port, read.server.port),
        "storage.path": (running.storage.path, read.storage.path),
        "storage.url": (running.storage.url, read.storage.url),
        "storage.retention_months": (
            running.storage.retention_months,
            read.storage.retention_months,
        ),
        "billing.currency": (running.billing.currency, read.billing.currency),
        "metrics.listen": (running.metrics.listen, read.metrics.listen),
    }
    server = dataclasses.replace(read.server, host=running.server.host, port=running.server.port)
    billing = dataclasses.replace(read.billing, currency=running.billing.currency)
    kept = dataclasses.replace(
        read, server=server, billing=billing, storage=running.storage, metrics=running.metrics
    )
    return kept, tuple(key for key, (old, new) in pairs.items() if old != new)


def describe_changes(before: Config, after: Config) -> str:
    """Say what is different, in one line, by the names of tables alone: values may be secrets."""
    parts = [
        _compare("models", before.models, after.models),
        _compare("providers", before.providers, after.providers),
        *(
            f"[{table}] changed"
            for table, old, new in (
                ("server", before.server, after.server),
                ("billing", before.billing, after.billing),
                ("console", before.console, after.console),
                ("alerts", before.alerts, after.alerts),
                ("limits", _list_limits(before), _list_limits(after)),
            )
            if old != new
        ),
        *(
            f"provider {one.name} is off: {one.off}"
            for one in after.providers.values()
            if one.off is not None and before.providers.get(one.name) != one
        ),
    ]
    return "; ".join(filter(None, parts)) or "nothing changed"


def _compare(what: str, before: Mapping[str, object], after: Mapping[str, object]) -> str:
    both = before.keys() & after.keys()
    groups = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in both and before[name] != after[name]],
    }
    told = [f"{len(names)} {how} ({_name(names)})" for how, names in groups.items() if names]
    return f"{what}: {', '.join(told)}" if told else ""


def _name(names: Collection[str]) -> str:
    more = ["…"] if len(names) > MAX_NAMED else []
    return ", ".join([*list(names)[:MAX_NAMED], *more])


def _list_limits(config: Config) -> object:
    return config.limits, config.account_limits
