"""Events: who did what, apart from requests; and replies to requests that are made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from gateway.ledger.records import (
    MAX_INTEGER,
    EventView,
    OtherRequest,
    RepeatableRequest,
    StoredReply,
)
from gateway.ledger.sql.books.database import Part
from gateway.ledger.sql.connection import Values

_MATCHING: Final = """
    (:part IS NULL OR actor LIKE :part ESCAPE '\\' OR action LIKE :part ESCAPE '\\'
        OR account LIKE :part ESCAPE '\\' OR target LIKE :part ESCAPE '\\')
"""
_PAGE: Final = f"""
    SELECT json_group_array(
        json_array(id, at_ms, actor, action, account, target, detail, address)
    )
    FROM (
        SELECT * FROM events WHERE id < coalesce(:before, {MAX_INTEGER}) AND {_MATCHING}
        ORDER BY id DESC LIMIT :limit
    ) AS page
"""  # noqa: S608 - built from constants
_COUNT_EVENTS: Final = "SELECT count(*) FROM events"
_MATCHING_COUNT: Final = f"{_COUNT_EVENTS} WHERE {_MATCHING}"
_LAST_EVENT: Final = """
    SELECT id, at_ms, actor, action, account, target, detail, address FROM events
    WHERE action = :action AND (:address IS NULL OR address = :address)
    ORDER BY id DESC LIMIT 1
"""
MAX_AT_ONCE: Final = 500
"""Events that are read at once; the rest is behind them."""
_AFTER: Final = f"""
    SELECT id, at_ms, actor, action, account, target, detail, address FROM events
    WHERE action = :action AND id > :after AND at_ms >= :since ORDER BY id LIMIT {MAX_AT_ONCE}
"""  # noqa: S608 - built from constants


class EventBook(Part):
    def read_page(self, search: str | None, before_id: int | None, limit: int) -> list[EventView]:
        """Return the latest first; `search` is a part of actor, action, account or target."""
        wanted = {"part": _make_pattern(search), "before": before_id, "limit": limit}
        events = [EventView(*row) for row in self._database.read_rows(_PAGE, wanted)]
        return sorted(events, key=lambda event: event.id, reverse=True)

    def count(self, search: str | None) -> int:
        sql = _COUNT_EVENTS if search is None else _MATCHING_COUNT
        return self._database.read_number(sql, {"part": _make_pattern(search)})

    def find_last(self, action: str, address: str | None = None) -> EventView | None:
        """Return the last event of an action, of anybody or from an address, or None."""
        row = self._database.read_one(_LAST_EVENT, {"action": action, "address": address})
        return None if row is None else EventView(*row)

    def read_after(self, action: str, after_id: int, since_ms: int) -> list[EventView]:
        """Return the events of an action behind an id and from a time on, the earliest first."""
        wanted: Values = {"action": action, "after": after_id, "since": since_ms}
        with self._database.reading() as connection:
            return [EventView(*row) for row in connection.execute(_AFTER, wanted).fetchall()]

    def append(self, action: str, *, target: str, detail: str, at_ms: int) -> None:
        """Note what a process did to itself, and when. It must not contain a secret."""
        self._database.note(action, account=None, target=target, detail=detail, at_ms=at_ms)


def _make_pattern(part: str | None) -> str | None:
    """Return a LIKE pattern with wildcards escaped; LIKE ignores the case of ASCII letters."""
    if part is None:
        return None
    # The backslash first, as it is what escapes the other two.
    literal = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{literal}%"


_FIND_REPLY: Final = (
    "SELECT request, status, reply FROM replays"
    " WHERE caller = ? AND route = ? AND idempotency_key = ?"
)
_KEEP_REPLY: Final = (
    "INSERT INTO replays (caller, route, idempotency_key, request, status, reply, created_ms)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


class ReplayBook(Part):
    def run_once(
        self, repeatable: RepeatableRequest, do: Callable[[], StoredReply]
    ) -> tuple[StoredReply, bool]:
        """Call `do`, or return the reply of the first call; and whether there was one before.

        `do` runs in the transaction that keeps its reply: both are committed, or neither.
        Raises OtherRequest if the idempotency key was used before with another body.
        """
        where = (repeatable.caller, repeatable.route, repeatable.idempotency_key)
        with self._database.changing() as connection:
            row = connection.execute(_FIND_REPLY, where).fetchone()
            if row is not None:
                request, status, reply = row
                if request != repeatable.request:
                    raise OtherRequest("this Idempotency-Key was used before, for another request")
                return StoredReply(status, reply), True
            # Inside this transaction: a crash leaves neither an effect without its reply, nor the reverse.
            kept = do()
            connection.execute(
                _KEEP_REPLY,
                (*where, repeatable.request, kept.status, kept.reply, self._database.clock()),
            )
            return kept, False
