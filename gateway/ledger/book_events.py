"""Who did what: the events; and what is known of proofs, copies and open holds.

Rows come as one JSON array, as in `rows`: every row that is stepped to gives up the GIL, and has to
win it back from a busy event loop.
"""

from __future__ import annotations

from typing import Final

import orjson

from gateway.ledger.book import Book
from gateway.ledger.records import EventView

_MATCHING: Final = """
    (:part IS NULL OR actor LIKE :part ESCAPE '\\' OR action LIKE :part ESCAPE '\\'
        OR account LIKE :part ESCAPE '\\' OR target LIKE :part ESCAPE '\\')
"""
_PAGE: Final = f"""
    SELECT json_group_array(
        json_array(id, at_ms, actor, action, account, target, detail, address)
    )
    FROM (
        SELECT * FROM events WHERE id < coalesce(:before, 9223372036854775807) AND {_MATCHING}
        ORDER BY id DESC LIMIT :limit
    )
"""  # noqa: S608 - of constants
_COUNT: Final = "SELECT count(*) FROM events"
_MATCHING_COUNT: Final = f"{_COUNT} WHERE {_MATCHING}"
_LAST: Final = "SELECT at_ms FROM events WHERE action = ? ORDER BY id DESC LIMIT 1"
_HELD: Final = "SELECT count(*), coalesce(sum(hold_nano), 0) FROM requests WHERE state = 'pending'"


class EventBook(Book):
    def events(self, search: str | None, before_id: int | None, limit: int) -> list[EventView]:
        """The latest first. `search` is a part of the actor, action, account or target."""
        wanted = {"part": _make_pattern(search), "before": before_id, "limit": limit}
        with self.reading() as connection:
            (found,) = connection.execute(_PAGE, wanted).fetchone()
        events = [EventView(*row) for row in orjson.loads(found)]
        return sorted(events, key=lambda event: event.id, reverse=True)

    def count_events(self, search: str | None) -> int:
        sql = _COUNT if search is None else _MATCHING_COUNT
        with self.reading() as connection:
            (count,) = connection.execute(sql, {"part": _make_pattern(search)}).fetchone()
            return int(count)

    def last_event_ms(self, action: str) -> int | None:
        """When it was last done, if ever."""
        with self.reading() as connection:
            row = connection.execute(_LAST, (action,)).fetchone()
            return None if row is None else int(row[0])

    def last_checkpoint_ms(self) -> int | None:
        """When a proof last covered entries that none had covered before, whoever ran it."""
        with self.reading() as connection:
            (at_ms,) = connection.execute("SELECT max(created_ms) FROM checkpoints").fetchone()
            return None if at_ms is None else int(at_ms)

    def open_holds(self) -> tuple[int, int]:
        """How many requests are pending, and what they hold in nano-units."""
        with self.reading() as connection:
            count, held_nano = connection.execute(_HELD).fetchone()
            return int(count), int(held_nano)


def _make_pattern(part: str | None) -> str | None:
    """For LIKE, which takes ASCII letters in any case, and `%` and `_` for wildcards."""
    if part is None:
        return None
    literal = part.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
    return f"%{literal}%"
