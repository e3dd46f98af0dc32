"""Calls of one account or of all, the latest first.

An account's calls of one key or one model may be few among many. The sums by hour tell in which hours they
ended; calls that ended in another hour than they began in have an index of their own, and so have
pending ones. Only those hours are searched. Rows come as one JSON array, see `database.read_rows`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final, Literal

from gateway.base.ids import display, find_first_id
from gateway.base.money import Tokens
from gateway.base.times import DAY_MS, HOUR_MS, HOURS_PER_DAY
from gateway.extras.observations.book import ObservationBook
from gateway.extras.observations.records import UpstreamFailure
from gateway.extras.reports.filters import (
    COUNT_FEW,
    IN_RANGE,
    INDEXES,
    LATEST,
    ONE,
    SLOWEST,
    are_summed,
    choose_index,
    find_bounds,
    make_parameters,
)
from gateway.extras.reports.records import CallFilter, CallView
from gateway.ledger.call_records import Outcome
from gateway.ledger.sql.database import Part, Value, read_script

_SQL: Final = read_script(__file__)
COUNT: Final = _SQL["count"]
DAYS: Final = _SQL["places"].format(unit="day", table="daily")
HOURS: Final = _SQL["places"].format(unit="hour", table="hourly")

MAX_COUNTED: Final = 10_000
"""The most calls that are counted one by one, which takes some 10 ms."""

_Columns = tuple[
    str, str, int, int | None, str, str, str, str, str,
    Literal["pending", "posted", "voided"], Outcome, int | None,
    int, int, int, int, int, int, int, int | None,
]  # fmt: skip
_ACCOUNT_OF_KEY: Final = "SELECT account_id FROM keys WHERE id = ?"


class CallBook(Part):
    def read_page(self, chosen: CallFilter, below_id: str | None, limit: int) -> list[CallView]:
        """Return the latest calls below an id, including pending ones."""
        chosen = self._find_account(chosen)
        if chosen.request_id is not None:
            found = self._read(ONE, chosen, id=chosen.request_id)
            return [one for one in found if below_id is None or one.request_id < below_id]
        statement, calls = LATEST[choose_index(chosen)], list[CallView]()
        with self._database.reading():  # SQLite folds once, not for each range
            for low, high in self.find_ranges(chosen, below_id):
                calls += self._read(statement, chosen, low=low, high=high, limit=limit - len(calls))
                if len(calls) == limit:
                    break
        return calls

    def read_slowest(self, chosen: CallFilter, below_id: str | None, limit: int) -> list[CallView]:
        """Return the slowest of the chosen calls below an id. Scans all chosen calls."""
        chosen = self._find_account(chosen)
        if chosen.slower_than_ms is None:  # pending and interrupted ones took no known time
            chosen = replace(chosen, slower_than_ms=-1)
        statement, calls = SLOWEST[choose_index(chosen)], list[CallView]()
        with self._database.reading():  # SQLite folds once, not for each range
            for low, high in self.find_ranges(chosen, below_id):
                calls += self._read(statement, chosen, low=low, high=high, limit=limit)
                calls = sorted(calls, key=_by_duration, reverse=True)[:limit]
        return calls

    def find_start_ms(self, chosen: CallFilter, below_id: str | None, count: int) -> int | None:
        """Return when the `count`-th latest call below an id began; None if there are fewer calls.

        Of the filter, only the account and the times count.
        """
        source, first, id_ = INDEXES["id" if chosen.account_id is None else "account"]
        sql = f"SELECT started_ms FROM {source} WHERE {first} {IN_RANGE.format(id=id_)}"  # noqa: S608
        wanted = CallFilter(chosen.account_id, since_ms=chosen.since_ms, until_ms=chosen.until_ms)
        ((low, high),) = self.find_ranges(wanted, below_id)
        values = make_parameters(wanted, low=low, high=high, newer=count - 1)
        found = self._database.read_one(f"{sql} ORDER BY {id_} DESC LIMIT 1 OFFSET :newer", values)
        return None if found is None else int(found[0])

    def count(self, chosen: CallFilter) -> int | None:
        """Return the number of chosen calls; None if they are too many to count and no sums have it."""
        if chosen.request_id is not None:
            return len(self.read_page(chosen, None, 1))
        chosen = self._find_account(chosen)
        if are_summed(chosen):
            return self._database.read_number(COUNT, make_parameters(chosen))
        statement, count = COUNT_FEW[choose_index(chosen)], 0
        with self._database.reading():  # SQLite folds once, not for each range
            for low, high in self.find_ranges(chosen, None):
                # A result above the limit means too many.
                left = MAX_COUNTED + 1 - count
                values = make_parameters(chosen, low=low, high=high, limit=left)
                count += self._database.read_number(statement, values)
                if count > MAX_COUNTED:
                    return None
        return count

    def read_last_failures(self, calls: Sequence[CallView]) -> dict[str, UpstreamFailure]:
        """Return the last failed attempt of each of these calls that has one, by request id."""
        if not calls:
            return {}
        request_ids = sorted(call.request_id for call in calls)
        found = ObservationBook(self._database).read_failures(request_ids[0], request_ids[-1])
        return {one.request_id: one for one in found}

    def find_ranges(self, chosen: CallFilter, below_id: str | None) -> Iterator[tuple[str, str]]:
        """Yield ranges of ids, the latest first, that contain all of the chosen calls."""
        since_ms, until_ms = find_bounds(chosen)
        lowest, top = find_first_id(since_ms), find_first_id(until_ms)
        end = top if below_id is None else min(top, below_id)
        is_wide = chosen.key_id is None and chosen.model is None
        if is_wide or choose_index(chosen) != "account":
            yield lowest, end
            return
        days = (since_ms // DAY_MS, (until_ms - 1) // DAY_MS)
        for day in self._find_places(DAYS, chosen, DAY_MS, days):
            if find_first_id(day * DAY_MS) >= end:
                continue
            hours = (day * HOURS_PER_DAY, (day + 1) * HOURS_PER_DAY - 1)
            for hour in self._find_places(HOURS, chosen, HOUR_MS, hours):
                low, high = find_first_id(hour * HOUR_MS), find_first_id((hour + 1) * HOUR_MS)
                if low < end and high > lowest:
                    yield max(low, lowest), min(high, end)

    def _find_places(
        self, statement: str, chosen: CallFilter, unit_ms: int, bounds: tuple[int, int]
    ) -> list[int]:
        """Return the days or hours in which chosen calls may have begun, the latest first."""
        first, last = bounds
        since_ms, until_ms = first * unit_ms, (last + 1) * unit_ms
        places = {"first": first, "last": last, "since": since_ms, "until": until_ms}
        values = make_parameters(chosen, ms=unit_ms, **places)
        return sorted(set(self._database.read_rows(statement, values)), reverse=True)

    def _find_account(self, chosen: CallFilter) -> CallFilter:
        """If a key is chosen, also filter by its account: the index of one account is smaller."""
        if chosen.account_id is not None or chosen.key_id is None:
            return chosen
        # No account has the number 0: an unknown key finds nothing, in no time.
        row = self._database.read_one(_ACCOUNT_OF_KEY, (chosen.key_id,))
        return replace(chosen, account_id=0 if row is None else row[0])

    def _read(self, statement: str, chosen: CallFilter, **values: Value) -> list[CallView]:
        rows = self._database.read_rows(statement, make_parameters(chosen, **values))
        return sorted(map(_view, rows), key=lambda call: call.request_id, reverse=True)


def _by_duration(call: CallView) -> tuple[int, str]:
    return call.total_ms or 0, call.request_id


def _view(row: _Columns) -> CallView:
    key_display = display(row[8], row[6])
    is_stream, is_estimated = bool(row[12]), bool(row[18])
    tokens = Tokens(*row[13:17])
    return CallView(
        *row[:8], key_display, *row[9:12], is_stream, tokens, row[17], is_estimated, row[19]
    )
