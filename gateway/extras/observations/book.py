"""Sums of refusals, calls to providers and latencies: added to what is stored, forgotten when old, and read.

Rows come as one JSON array, see `database.read_rows`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, replace
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from gateway.base.ids import find_first_id
from gateway.base.times import DAY_MS, HOUR_MS, HOURS_PER_DAY
from gateway.extras.observations.records import (
    EDGES_MS,
    SLOT_MS,
    CallSums,
    KeyLabel,
    LatencyCount,
    LatencyScope,
    RefusalView,
    RefusedSum,
    RefusedView,
    UpstreamFailure,
    UpstreamView,
    label_key,
)
from gateway.ledger.records import NotFound
from gateway.ledger.sql.database import (
    MAX_ROWS,
    Connection,
    Database,
    InsertRows,
    Part,
    Row,
    Value,
    read_script,
    read_terms,
)

if TYPE_CHECKING:  # commands do without what serves
    from gateway.extras.observations.observer import LatencyKey, Observations, RefusedRow

KEPT_MS: Final = 31 * DAY_MS
"""How long counts are kept: "the last 30 days", and the present day."""
KEPT_FAILURES: Final = 10_000
"""How many failures are kept as single requests: a provider that is down makes many."""
KEPT_REFUSED_MS: Final = 7 * DAY_MS
"""Milliseconds for which refused requests are kept one by one, a week: later only their counts matter."""
REFUSED_A_DAY: Final = 10_000
"""How many refused requests of a UTC day are kept: the latest."""
REFUSED_OF_ACCOUNT_A_DAY: Final = 1000
"""How many of these may be one account's: a client that retries for ever must not displace the
others."""

_SQL: Final = read_script(__file__)
REFUSED: Final = _SQL["refused request"]
"""The request of a key that was refused, if it is kept; `serving` reads it beside the books."""
_FORGET_REFUSED: Final = "DELETE FROM refused WHERE request_id < ?"
_LIMIT_REFUSED_OF_ACCOUNT: Final = _SQL["limit refused"].format(chosen="account_id = :account")
_LIMIT_REFUSED_OF_ALL: Final = _SQL["limit refused"].format(chosen="TRUE")
_FORGET: Final = (
    ("DELETE FROM refusals WHERE hour < ?", HOUR_MS),
    ("DELETE FROM upstream_calls WHERE slot < ?", SLOT_MS),
    ("DELETE FROM latencies WHERE scope IN ('route', 'account', 'day') AND hour < ?", HOUR_MS),
)


def write_observations(
    connection: Connection, insert_rows: InsertRows, *, observed: Observations, now_ms: int
) -> None:
    """Add the sums to what is stored, inside a transaction, and forget what is old."""
    refusals = [(*key, *astuple(one)) for key, one in observed.refusals.items()]
    calls = [
        (*key, one.calls, one.failures, *(astuple(one.last)[:5] if one.last else (None,) * 5))
        for key, one in observed.calls.items()
    ]
    insert_rows(connection, _SQL["add refusals"], refusals)
    _write_refused(connection, observed.refused, now_ms, insert_rows)
    insert_rows(connection, _SQL["add calls"], calls)
    insert_rows(connection, _SQL["add failures"], [astuple(one) for one in observed.failures])
    insert_rows(connection, _SQL["add latencies"], _make_latency_rows(observed.latencies))
    # Each kind by itself: callers make rejections, which must not push out what providers failed at.
    for rejected in {int(one.rejected) for one in observed.failures}:
        connection.execute(_SQL["forget failures"], {"rejected": rejected, "kept": KEPT_FAILURES})
    for statement, unit_ms in _FORGET:
        connection.execute(statement, ((now_ms - KEPT_MS) // unit_ms,))


def _write_refused(
    connection: Connection, refused: Sequence[RefusedRow], now_ms: int, insert_rows: InsertRows
) -> None:
    """Add refused requests, and forget what is old or too many of a day: ids are ordered by time."""
    insert_rows(connection, _SQL["add refused"], refused)
    connection.execute(_FORGET_REFUSED, (find_first_id(now_ms - KEPT_REFUSED_MS),))
    for day in {at_ms // DAY_MS for _, at_ms, *_ in refused}:
        span = {"first": find_first_id(day * DAY_MS), "after": find_first_id((day + 1) * DAY_MS)}
        for account_id in {account_id for _, _, account_id, *_ in refused}:
            wanted = span | {"account": account_id, "kept": REFUSED_OF_ACCOUNT_A_DAY}
            connection.execute(_LIMIT_REFUSED_OF_ACCOUNT, wanted)
        connection.execute(_LIMIT_REFUSED_OF_ALL, span | {"kept": REFUSED_A_DAY})


def _make_latency_rows(sums: Mapping[LatencyKey, list[int]]) -> list[Row]:
    """Sum by scope and bucket, so that a page reads few rows: a day has one for each bucket at most."""
    rows: dict[Row, list[int]] = {}
    for (hour, account_id, provider, model), times in sums.items():
        buckets = [Counter(bisect_left(EDGES_MS, one) for one in times[at::2]) for at in range(2)]
        day = hour // HOURS_PER_DAY * HOURS_PER_DAY
        for scope in (
            ("route", hour, 0, provider, model),
            ("account", hour, account_id, "", ""),
            ("day", day, 0, "", ""),
        ):
            for place in range(2):
                for bucket, count in buckets[place].items():
                    rows.setdefault((*scope, bucket), [0, 0])[place] += count
    return [(*key, *counts) for key, counts in rows.items()]


def _label(key_id: str | None, name: str, last4: str) -> KeyLabel | None:
    return None if key_id is None else label_key(key_id, name, last4)


def _meet(*columns: str | None) -> tuple[str, ...] | None:
    """Return the models that are in every list; None if there is no list."""
    lists = [read_terms((one, None, None, None)).models for one in columns]
    found = [one for one in lists if one is not None]
    return tuple(one for one in found[0] if one in found[-1]) if found else None


_AFTER_ALL: Final = "req_g"
"""Greater than all request ids."""

_EARLIER: Final = WeakKeyDictionary[Database, tuple[int, Mapping[tuple[str, str], UpstreamView]]]()
"""The calls of days before this one, as each connection read them, and the hour of that: they are read once
an hour. Pages ask every few seconds, no key of the table finds a provider's latest slot, and the past hardly
changes."""


class ObservationBook(Part):
    def read_refusals(self, account_id: int | None, since_ms: int) -> list[RefusalView]:
        """Sum refusals by the hour, without hours whose last is before a time; None: those of everybody."""
        wanted = {"account": account_id, "hour": since_ms // HOUR_MS, "since": since_ms}
        refusals = [RefusalView(*row) for row in self._database.read_rows(_SQL["refusals"], wanted)]
        return sorted(refusals, key=lambda one: one.last_ms, reverse=True)

    def read_latencies(
        self, scope: LatencyScope, first_hour: int, end_hour: int, account_id: int | None = None
    ) -> list[LatencyCount]:
        """Return the counts of the hours before `end_hour`; a day's counts have the day's first hour."""
        wanted = {"scope": scope, "first": first_hour, "end": end_hour, "account": account_id}
        return [
            LatencyCount(tuple(filter(None, name)), bucket, firsts, totals)
            for *name, bucket, firsts, totals in self._database.read_rows(_SQL["latencies"], wanted)
        ]

    def read_refused(self, account_id: int | None, since_ms: int, limit: int) -> list[RefusedView]:
        """Return refused requests that began since a time, the latest first; None: of everybody."""
        return self._read_refused(find_first_id(since_ms), _AFTER_ALL, account_id, limit)

    def find_refused(self, request_id: str, *, account_id: int | None = None) -> RefusedView:
        """Return a refused request. Raises NotFound, also for those of other accounts."""
        for one in self._read_refused(request_id, request_id, account_id, 1):
            return one
        raise NotFound(
            "there is no call of that request id, and no request that was refused in the last 7 days"
        )

    def _read_refused(
        self, first: str, last: str, account_id: int | None, limit: int
    ) -> list[RefusedView]:
        wanted = {"first": first, "last": last, "account": account_id, "limit": limit}
        refused = [
            replace(RefusedView(*told), key=_label(*key), models=_meet(*lists), ended_ms=ended_ms)
            for told, key, lists, ended_ms in self._database.read_rows(_SQL["refused"], wanted)
        ]
        return sorted(refused, key=lambda one: one.request_id, reverse=True)

    def sum_refused(self, account_id: int, since_ms: int) -> list[RefusedSum]:
        """Count the requests of an account that are kept by code, model and key, the most first."""
        wanted: dict[str, Value] = {"account": account_id, "first": find_first_id(since_ms)}
        sums = [
            RefusedSum(code, model, label_key(key_id, name, last4), count)
            for code, model, key_id, name, last4, count in self._database.read_rows(
                _SQL["refused by key"], wanted
            )
        ]
        return sorted(sums, key=lambda one: (-one.count, one.key.id))

    def read_failures(self, first: str, last: str) -> tuple[UpstreamFailure, ...]:
        """Return the failed and rejected attempts of a range of request ids, the first one first."""
        rows = self._database.fetch(_SQL["failures of requests"], {"first": first, "last": last})
        return tuple(UpstreamFailure(*row[:8], *map(bool, row[8:])) for row in rows)

    def read_upstream(self) -> list[UpstreamView]:
        """Return every provider's model that was asked within a month, by name."""
        now_ms = self._database.clock()
        hour = now_ms // HOUR_MS
        # An hour before the day, so that the span has "the last hour", too.
        first = (now_ms // DAY_MS * DAY_MS - HOUR_MS) // SLOT_MS
        with self._database.snapshot():
            if _EARLIER.get(self._database, (-1, {}))[0] != hour:
                _EARLIER[self._database] = hour, self._read_span(0, first)
            seen = dict(_EARLIER[self._database][1])
            for name, view in self._read_span(first, MAX_ROWS).items():
                is_known = view.failure is not None or name not in seen
                seen[name] = view if is_known else replace(view, failure=seen[name].failure)
        return [seen[name] for name in sorted(seen)]

    def _read_span(self, first: int, end: int) -> dict[tuple[str, str], UpstreamView]:
        """Return the providers' models that were asked in slots before `end`, by their names."""
        now_ms = self._database.clock()
        span = {"first": first, "end": end}
        spans = {
            "hour": (now_ms - HOUR_MS) // SLOT_MS + 1,
            "day": now_ms // DAY_MS * DAY_MS // SLOT_MS,
        }
        failures = {
            (provider, model): UpstreamFailure(*row)
            for provider, model, *row in self._database.read_rows(_SQL["failures"], span)
        }
        return {
            (provider, model): UpstreamView(
                provider,
                model,
                CallSums(*sums[:2]),
                CallSums(*sums[2:4]),
                CallSums(*sums[4:]),
                failures.get((provider, model)),
            )
            for provider, model, *sums in self._database.read_rows(_SQL["calls"], span | spans)
        }
