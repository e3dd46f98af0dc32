"""Events, as operators see and search them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gateway.admin.fields import Fields
from gateway.ledger.records import MAX_INTEGER, EventView
from gateway.ledger.sql.database import Part, read_script

_SQL: Final = read_script(__file__)
_CHOSEN: Final = _SQL["chosen events"]
_PAGE: Final = _SQL["page of events"].format(chosen=_CHOSEN)
_COUNT: Final = _SQL["count events"].format(chosen=_CHOSEN)

EVENT: Final = Fields[EventView](
    *("id", "at_ms", "actor", "action", "account", "target", "detail", "address"),
    table=(
        ("WHEN UTC", "at_ms"),
        ("WHO", "actor"),
        ("WHAT", "action"),
        *("account", "target"),
        ("FROM", "address"),
        ("DETAIL", lambda event: event.detail),
    ),
)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """The conditions that narrow a list of events; by default there are none."""

    search: str | None = None
    """A part of the actor, the action, the account or the target."""
    actor: str | None = None
    """A part of the actor."""
    kind: str | None = None
    """The action's first word: `key` of `key.revoke`."""
    since_ms: int = 0
    until_ms: int | None = None


class EventLog(Part):
    def read_page(self, chosen: EventFilter, before_id: int | None, limit: int) -> list[EventView]:
        """Return events before an id, the latest first."""
        before = MAX_INTEGER if before_id is None else before_id
        wanted = {**_describe_filter(chosen), "before": before, "limit": limit}
        events = [EventView(*row) for row in self._database.read_rows(_PAGE, wanted)]
        return sorted(events, key=lambda event: event.id, reverse=True)

    def count(self, chosen: EventFilter) -> int:
        return self._database.read_number(_COUNT, _describe_filter(chosen))

    def find_kinds(self) -> list[str]:
        """Return the first words of all actions, such as `key` of `key.revoke`."""
        rows = self._database.fetch("SELECT DISTINCT action FROM events")
        return sorted({action.partition(".")[0] for (action,) in rows})


def _describe_filter(chosen: EventFilter) -> dict[str, str | int | None]:
    return {
        "since": chosen.since_ms,
        "until": MAX_INTEGER if chosen.until_ms is None else chosen.until_ms,
        "actor": _make_pattern(chosen.actor),
        "kind": chosen.kind and f"{_escape(chosen.kind)}.%",
        "part": _make_pattern(chosen.search),
    }


def _make_pattern(part: str | None) -> str | None:
    """Return a LIKE pattern; LIKE ignores the case of ASCII letters."""
    return None if part is None else f"%{_escape(part)}%"


def _escape(part: str) -> str:
    # The backslash first, as it escapes the other two.
    return part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
