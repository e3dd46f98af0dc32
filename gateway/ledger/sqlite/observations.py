"""Write the sums of refusals and of calls to providers, and forget the old ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gateway.ledger.observations import KEPT_FAILURES, KEPT_MS, SLOT_MS, UpstreamFailure
from gateway.ledger.sqlite.rows import Row, Statement, run_rows
from gateway.ledger.sqlite.schema import transaction
from gateway.times import HOUR_MS

ROWS_AT_ONCE: Final = 512
"""Rows of a statement: SQLite takes 32,766 parameters."""

RefusalKey = tuple[int, int | None, str, str]
"""Hour, account id, code, model."""
CallKey = tuple[int, str, str]
"""Slot, provider, upstream model."""

_ADD_REFUSALS: Final = Statement(
    "INSERT INTO refusals (hour, account_id, code, model, refused, last_ms, last_request_id)"
    " SELECT * FROM",
    "WHERE column1 NOT NULL"
    " ON CONFLICT (hour, coalesce(account_id, 0), code, model) DO UPDATE SET"
    " refused = refused + excluded.refused, last_ms = excluded.last_ms,"
    " last_request_id = excluded.last_request_id",
)
_ADD_CALLS: Final = Statement(
    "INSERT INTO upstream_calls (slot, provider, upstream_model, calls, failures, failed_ms,"
    " failed_request_id, failed_status, reason, url) SELECT * FROM",
    "WHERE column1 NOT NULL"
    " ON CONFLICT (slot, provider, upstream_model) DO UPDATE SET"
    " calls = calls + excluded.calls, failures = failures + excluded.failures,"
    " failed_ms = coalesce(excluded.failed_ms, failed_ms),"
    " failed_request_id = iif(excluded.failed_ms IS NULL, failed_request_id, excluded.failed_request_id),"
    " failed_status = iif(excluded.failed_ms IS NULL, failed_status, excluded.failed_status),"
    " reason = coalesce(excluded.reason, reason), url = coalesce(excluded.url, url)",
)
_ADD_FAILURES: Final = Statement(
    "INSERT INTO upstream_failures (failed_ms, request_id, status, reason, url) SELECT * FROM",
    "WHERE column1 NOT NULL",
)
_FORGET_FAILURES: Final = (
    "DELETE FROM upstream_failures WHERE id <= (SELECT max(id) FROM upstream_failures) - ?"
)
_FORGET: Final = (
    ("DELETE FROM refusals WHERE hour < ?", HOUR_MS),
    ("DELETE FROM upstream_calls WHERE slot < ?", SLOT_MS),
)


@dataclass(slots=True)
class RefusalSum:
    count: int = 0
    last_ms: int = 0
    last_request_id: str = ""

    def add(self, other: RefusalSum) -> None:
        """Add what came later."""
        self.count += other.count
        self.last_ms, self.last_request_id = other.last_ms, other.last_request_id


@dataclass(slots=True)
class CallSum:
    calls: int = 0
    failures: int = 0
    last: UpstreamFailure | None = None

    def add(self, other: CallSum) -> None:
        """Add what came later."""
        self.calls += other.calls
        self.failures += other.failures
        self.last = other.last or self.last


@dataclass(slots=True)
class Observations:
    """Sums that are not written yet."""

    refusals: dict[RefusalKey, RefusalSum] = field(default_factory=dict)
    calls: dict[CallKey, CallSum] = field(default_factory=dict)
    failures: list[UpstreamFailure] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.refusals or self.calls)

    def add(self, later: Observations) -> None:
        for key, refusal in later.refusals.items():
            self.refusals.setdefault(key, RefusalSum()).add(refusal)
        for slot, call in later.calls.items():
            self.calls.setdefault(slot, CallSum()).add(call)
        self.failures += later.failures


def write_observations(connection: sqlite3.Connection, observed: Observations, now_ms: int) -> None:
    """Add the sums to what is stored, in one transaction that does not wait for the disk.

    A commit of money does (`synchronous = FULL`), and one that waited behind this would take twice
    as long. The log stays in order: the next such commit brings these rows to the disk, too.
    """
    connection.execute("PRAGMA synchronous = NORMAL")
    try:
        with transaction(connection):
            _run(connection, _ADD_REFUSALS, _make_refusal_rows(observed.refusals))
            _run(connection, _ADD_CALLS, _make_call_rows(observed.calls))
            _run(connection, _ADD_FAILURES, [_make_failure_cells(one) for one in observed.failures])
            connection.execute(_FORGET_FAILURES, (KEPT_FAILURES,))
            for statement, unit_ms in _FORGET:
                connection.execute(statement, ((now_ms - KEPT_MS) // unit_ms,))
    finally:
        connection.execute("PRAGMA synchronous = FULL")


def _run(connection: sqlite3.Connection, statement: Statement, rows: Sequence[Row]) -> None:
    for start in range(0, len(rows), ROWS_AT_ONCE):
        run_rows(connection, statement, rows[start : start + ROWS_AT_ONCE])


def _make_refusal_rows(sums: Mapping[RefusalKey, RefusalSum]) -> list[Row]:
    return [(*key, one.count, one.last_ms, one.last_request_id) for key, one in sums.items()]


def _make_call_rows(sums: Mapping[CallKey, CallSum]) -> list[Row]:
    return [
        (*key, one.calls, one.failures, *_make_failure_cells(one.last)) for key, one in sums.items()
    ]


def _make_failure_cells(failure: UpstreamFailure | None) -> Row:
    if failure is None:
        return (None,) * 5
    return (
        failure.at_ms, failure.request_id, failure.status, failure.reason, failure.url,
    )  # fmt: skip
