"""Calls of one account or of all, the latest first.

Request ids begin with the time of the request, so a time is a range of ids, and each index has the
calls of a range in their order. In SQLite some indexes are tables, which are written behind the
calls (see `sqlite.folds`). The filter decides which index is used:

    calls that failed, or are pending   an index of those alone
    one model of all accounts           the index by model
    one provider                        the index by provider
    anything else                       the index by account; by id for all accounts

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
from gateway.extras.reports.records import CallFilter, CallView
from gateway.ledger.call_records import Outcome
from gateway.ledger.observation_records import UpstreamFailure
from gateway.ledger.sql.books import Books
from gateway.ledger.sql.database import Part, Value, read_script, write_rows

LAST_MS: Final = 3_000_000 * DAY_MS
"""Later than the year 9999, the last that filters accept."""
COMPLETE_STATUS: Final = 200
"""The status of every complete call, and of streams that broke later."""

Index = Literal["id", "account", "model", "provider", "failed", "pending"]


def _find_by(table: str) -> str:
    """Write the source of calls whose ids are found in a table; PostgreSQL has an index for it."""
    return f"{table} AS called CROSS JOIN requests ON requests.id = called.id"


_INDEXES: Final[dict[Index, tuple[str, str, str]]] = {
    "id": ("requests", "TRUE", "requests.id"),
    "account": (
        _find_by("calls_by_account"),
        (
            "called.account_id = :account AND called.key_id = coalesce(:key, called.key_id)"
            " AND called.model = coalesce(:model, called.model)"
        ),
        "called.id",
    ),
    "model": (_find_by("calls_by_model"), "called.model = :model", "called.id"),
    "provider": (
        _find_by("calls_by_provider"),
        "called.provider = :provider AND called.account_id = coalesce(:account, called.account_id)",
        "called.id",
    ),
    "failed": (
        "requests INDEXED BY requests_failed",
        "outcome NOT IN ('pending', 'complete')",
        "requests.id",
    ),
    "pending": ("requests INDEXED BY requests_pending", "state = 'pending'", "requests.id"),
}
"""The source, with SQLite's hint to use an index, which PostgreSQL does not get; the condition that
allows it; the id whose order it has."""

_CHOSEN: Final = """
    requests.account_id = coalesce(:account, requests.account_id)
    AND requests.key_id = coalesce(:key, requests.key_id)
    AND requests.model = coalesce(:model, requests.model)
    AND requests.provider = coalesce(:provider, requests.provider)
    AND outcome = coalesce(:outcome, outcome) AND (:status IS NULL OR status = :status)
    AND (:slower IS NULL OR ended_ms - started_ms > :slower AND outcome <> 'interrupted')
"""
_CALL: Final = f"""
    SELECT requests.id, accounts.name, started_ms, ended_ms, requests.model, requests.provider,
        requests.key_id, keys.name, last4, state, outcome, status, stream, input_tokens,
        cached_input_tokens, cache_write_tokens + cache_write_1h_tokens, output_tokens, cost_nano,
        estimated, first_byte_ms
    FROM {{source}} CROSS JOIN keys ON keys.id = requests.key_id
        CROSS JOIN accounts ON accounts.id = requests.account_id
    WHERE {{first}} AND {_CHOSEN}
"""  # noqa: S608 - built from constants, as those below
_COLUMNS: Final = 20
"""Columns of `_CALL`, which `write_rows` has to name."""
_IN_RANGE: Final = "AND {id} >= :low AND {id} < :high"
ONE: Final = write_rows(
    f"""
    {_CALL.format(source="requests", first="requests.id = :id")}
        AND started_ms >= :since AND started_ms < :until
        AND (:failed = 0 OR outcome NOT IN ('pending', 'complete'))
    """,
    _COLUMNS,
)


def _write_latest(index: Index) -> str:
    source, first, id_ = _INDEXES[index]
    calls = f"{_CALL.format(source=source, first=first)} {_IN_RANGE.format(id=id_)}"
    return write_rows(f"{calls} ORDER BY {id_} DESC LIMIT :limit", _COLUMNS)


def _write_chosen(index: Index) -> str:
    source, first, id_ = _INDEXES[index]
    return f"FROM {source} WHERE {first} AND {_CHOSEN} {_IN_RANGE.format(id=id_)}"


def _write_slowest(index: Index) -> str:
    # Only the shown calls are joined with their key and account.
    order = "ORDER BY ended_ms - started_ms DESC, requests.id DESC LIMIT :limit"
    slowest = f"SELECT requests.id {_write_chosen(index)} {order}"
    calls = _CALL.format(source="requests", first=f"requests.id IN ({slowest})")
    return write_rows(calls, _COLUMNS)


def _write_count(index: Index) -> str:
    return f"SELECT count(*) FROM (SELECT 1 {_write_chosen(index)} LIMIT :limit) AS chosen"  # noqa: S608


LATEST: Final = {index: _write_latest(index) for index in _INDEXES}
SLOWEST: Final = {index: _write_slowest(index) for index in _INDEXES}
COUNT_FEW: Final = {index: _write_count(index) for index in _INDEXES}

_SQL: Final = read_script(__file__)
COUNT: Final = _SQL["count"]
DAYS: Final = _SQL["places"].format(unit="day", table="daily")
HOURS: Final = _SQL["places"].format(unit="hour", table="hourly")


def choose_index(chosen: CallFilter) -> Index:
    if chosen.outcome == "pending":
        return "pending"
    if chosen.outcome not in {None, "complete"} or chosen.status not in {None, COMPLETE_STATUS}:
        return "failed"
    if chosen.provider is not None and chosen.key_id is None and chosen.model is None:
        return "provider"
    if chosen.account_id is None:
        return "id" if chosen.model is None else "model"
    return "account"


def are_summed(chosen: CallFilter) -> bool:
    """Return whether the sums by day tell how many calls are chosen.

    Those of all accounts together may be as many as the calls.
    """
    if chosen.account_id is None:
        return False
    others = (chosen.provider, chosen.outcome, chosen.status, chosen.slower_than_ms)
    bounds = _find_bounds(chosen)
    return all(other is None for other in others) and not any(ms % DAY_MS for ms in bounds)


def _find_bounds(chosen: CallFilter) -> tuple[int, int]:
    """Return the times between which the chosen calls began; the end is exclusive."""
    since_ms = 0 if chosen.since_ms is None else max(chosen.since_ms, 0)
    until_ms = LAST_MS if chosen.until_ms is None else min(chosen.until_ms, LAST_MS)
    return since_ms, max(until_ms, 0)


def make_parameters(chosen: CallFilter, **others: Value) -> dict[str, Value]:
    """Return the parameters of a filter, with others or in place of them."""
    since_ms, until_ms = _find_bounds(chosen)
    return {
        "account": chosen.account_id,
        "key": chosen.key_id,
        "model": chosen.model,
        "provider": chosen.provider,
        "outcome": None if chosen.outcome == "failed" else chosen.outcome,
        "failed": chosen.outcome == "failed",
        "status": chosen.status,
        "slower": chosen.slower_than_ms,
        "first": since_ms // DAY_MS,
        "last": (until_ms - 1) // DAY_MS,
        "since": since_ms,
        "until": until_ms,
        **others,
    }


MAX_COUNTED: Final = 10_000
"""The most calls that are counted one by one, which takes some 10 ms."""

_Columns = tuple[
    str, str, int, int | None, str, str, str, str, str,
    Literal["pending", "posted", "voided"], Outcome, int | None,
    int, int, int, int, int, int, int, int | None,
]  # fmt: skip
_ACCOUNT_OF_KEY: Final = "SELECT account_id FROM keys WHERE id = ?"


class CallBook(Part):
    def __init__(self, books: Books) -> None:
        super().__init__(books)
        self._observations = books.observations

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
        """Return since when so many of the account's calls below an id began; None if they are fewer."""
        source, first, id_ = _INDEXES["id" if chosen.account_id is None else "account"]
        sql = f"SELECT started_ms FROM {source} WHERE {first} {_IN_RANGE.format(id=id_)}"  # noqa: S608
        wanted = CallFilter(chosen.account_id, since_ms=chosen.since_ms, until_ms=chosen.until_ms)
        ((low, high),) = self.find_ranges(wanted, below_id)
        values = make_parameters(wanted, low=low, high=high, newer=count - 1)
        found = self._database.read_one(f"{sql} ORDER BY {id_} DESC LIMIT 1 OFFSET :newer", values)
        return None if found is None else int(found[0])

    def count(self, chosen: CallFilter) -> int | None:
        """Return how many calls are chosen; None if they are many and no sums tell their number."""
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
        """Return how the last attempt failed of each of these calls that has one, by request id."""
        if not calls:
            return {}
        request_ids = sorted(call.request_id for call in calls)
        found = self._observations.read_failures(request_ids[0], request_ids[-1])
        return {one.request_id: one for one in found}

    def find_ranges(self, chosen: CallFilter, below_id: str | None) -> Iterator[tuple[str, str]]:
        """Yield ranges of ids, the latest first, that contain all of the chosen calls."""
        since_ms, until_ms = _find_bounds(chosen)
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
    key_display, is_stream, is_estimated = display(row[8]), bool(row[12]), bool(row[18])
    tokens = Tokens(*row[13:17])
    return CallView(
        *row[:8], key_display, *row[9:12], is_stream, tokens, row[17], is_estimated, row[19]
    )
