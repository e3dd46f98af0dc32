"""Complete replies whose usage is missing or implausible: counted, and logged once an hour.

They are charged by an estimate, so an operator should know which provider does not report.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

from gateway.times import HOUR_MS

log = logging.getLogger("gateway.usage")


@dataclass(slots=True)
class MissingUsage:
    """The replies of one provider and model without a usage, since the start."""

    provider: str
    model: str
    count: int = 0
    last_ms: int = 0
    logged_hour: int = -1


class MissingUsages:
    """The counts by provider and model. The configuration bounds their number."""

    __slots__ = ("_found",)

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], MissingUsage] = {}

    def note(self, provider: str, model: str, now_ms: int) -> None:
        """Count a reply; log the first of each hour."""
        found = self._found.setdefault((provider, model), MissingUsage(provider, model))
        found.count += 1
        found.last_ms = now_ms
        hour = now_ms // HOUR_MS
        if found.logged_hour != hour:
            found.logged_hour = hour
            log.warning(
                "provider %s reports no usage, or an implausible one, for model %s: %d replies are"
                " charged by an estimate since the start",
                provider,
                model,
                found.count,
            )

    def list_latest(self) -> list[MissingUsage]:
        """Return the counts, the latest first."""
        return sorted(self._found.values(), key=lambda one: -one.last_ms)
