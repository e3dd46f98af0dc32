"""Refusals and calls to providers. Rows come as one JSON array (see `rows`)."""

from __future__ import annotations

from typing import Final

from gateway.ledger.observations import (
    SLOT_MS,
    CallSums,
    RefusalView,
    UpstreamFailure,
    UpstreamView,
)
from gateway.ledger.sql.books.database import Database
from gateway.times import DAY_MS, HOUR_MS

# With a single max(), the other columns are those of its row.
_REFUSALS: Final = """
    SELECT json_group_array(json_array(name, code, model, refused, last_ms, last_request_id))
    FROM (
        SELECT accounts.name, code, model, sum(refused) AS refused, max(last_ms) AS last_ms,
            last_request_id
        FROM refusals LEFT JOIN accounts ON accounts.id = account_id
        WHERE hour >= :hour AND (:account IS NULL OR account_id = :account)
        GROUP BY account_id, code, model
    )
"""
_CALLS: Final = """
    SELECT json_group_array(json_array(
        provider, upstream_model, hour_calls, hour_failures, day_calls, day_failures, calls, failures
    ))
    FROM (
        SELECT provider, upstream_model, max(slot), calls, failures,
            coalesce(sum(calls) FILTER (WHERE slot >= :hour), 0) AS hour_calls,
            coalesce(sum(failures) FILTER (WHERE slot >= :hour), 0) AS hour_failures,
            coalesce(sum(calls) FILTER (WHERE slot >= :day), 0) AS day_calls,
            coalesce(sum(failures) FILTER (WHERE slot >= :day), 0) AS day_failures
        FROM upstream_calls GROUP BY provider, upstream_model
    )
"""
_FAILURES: Final = """
    SELECT json_group_array(json_array(
        provider, upstream_model, failed_ms, failed_request_id, failed_status, reason, url
    ))
    FROM (
        SELECT *, max(failed_ms) FROM upstream_calls
        WHERE failed_ms NOT NULL GROUP BY provider, upstream_model
    )
"""


class ObservationBook:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read_refusals(self, account_id: int | None, since_ms: int) -> list[RefusalView]:
        wanted = {"account": account_id, "hour": since_ms // HOUR_MS}
        refusals = [RefusalView(*row) for row in self._database.read_rows(_REFUSALS, wanted)]
        return sorted(refusals, key=lambda one: one.last_ms, reverse=True)

    def read_upstream(self) -> list[UpstreamView]:
        now_ms = self._database.clock()
        slots = {
            "hour": (now_ms - HOUR_MS) // SLOT_MS + 1,
            "day": now_ms // DAY_MS * DAY_MS // SLOT_MS,
        }
        with self._database.snapshot():
            calls = self._database.read_rows(_CALLS, slots)
            failed = self._database.read_rows(_FAILURES, ())
        failures = {(provider, model): UpstreamFailure(*row) for provider, model, *row in failed}
        return sorted(
            (
                UpstreamView(
                    provider,
                    model,
                    hour=CallSums(*sums[:2]),
                    today=CallSums(*sums[2:4]),
                    latest=CallSums(*sums[4:]),
                    failure=failures.get((provider, model)),
                )
                for provider, model, *sums in calls
            ),
            key=lambda one: (one.provider, one.upstream_model),
        )
