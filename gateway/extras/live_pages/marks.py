"""Rows of the ledger that differ as soon as something happened that pages show."""

from __future__ import annotations

from typing import Final

from gateway.base.times import DAY_MS, HOUR_MS
from gateway.extras.observations.records import SLOT_MS
from gateway.ledger.sql.database import Part, read_script

_SQL: Final = read_script(__file__)


class MarkBook(Part):
    def read(self, account_id: int | None) -> tuple[object, ...]:
        """Return the row of an account, or of all of them."""
        now_ms = self._database.clock()
        if account_id is None:
            # One slot back: the observer writes the last sums of a slot a moment after its end.
            wanted = {"slot": now_ms // SLOT_MS - 1, "hour": now_ms // HOUR_MS - 1}
            return tuple(self._database.read_one(_SQL["all accounts"], wanted))
        wanted = {"account": account_id, "day": now_ms // DAY_MS - 1}
        return tuple(self._database.read_one(_SQL["an account"], wanted))
