"""Refusals and calls to providers. Rows come as one JSON array (see `connection.read_rows`)."""

from __future__ import annotations

from typing import Final

from gateway.ledger.alert_records import (
    SLOT_MS,
    CallSums,
    RefusalView,
    UpstreamFailure,
    UpstreamView,
)
from gateway.ledger.sql.books.database import Database
from gateway.times import DAY_MS, HOUR_MS

_REFUSALS: Final = """
    SELECT json_group_array(json_array(name, code, model, refused, last_ms, last_request_id))
    FROM (
        SELECT account_id, code, model, last_ms, last_request_id,
            sum(refused) OVER (PARTITION BY account_id, code, model) AS refused,
            row_number() OVER (
                PARTITION BY account_id, code, model ORDER BY last_ms DESC, hour DESC
            ) AS place
        FROM refusals WHERE hour >= :hour AND (:account IS NULL OR account_id = :account)
    ) AS ranked LEFT JOIN accounts ON accounts.id = account_id
    WHERE place = 1
"""
_CALLS: Final = """
    SELECT json_group_array(json_array(
        sums.provider, sums.upstream_model, hour_calls, hour_failures, day_calls, day_failures,
        calls, failures
    ))
    FROM (
        SELECT provider, upstream_model, max(slot) AS latest,
            coalesce(sum(calls) FILTER (WHERE slot >= :hour), 0) AS hour_calls,
            coalesce(sum(failures) FILTER (WHERE slot >= :hour), 0) AS hour_failures,
            coalesce(sum(calls) FILTER (WHERE slot >= :day), 0) AS day_calls,
            coalesce(sum(failures) FILTER (WHERE slot >= :day), 0) AS day_failures
        FROM upstream_calls GROUP BY provider, upstream_model
    ) AS sums CROSS JOIN upstream_calls ON slot = latest
        AND upstream_calls.provider = sums.provider
        AND upstream_calls.upstream_model = sums.upstream_model
"""
_FAILURES: Final = """
    SELECT json_group_array(json_array(
        sums.provider, sums.upstream_model, failed_ms, failed_request_id, failed_status, reason, url
    ))
    FROM (
        SELECT provider, upstream_model, max(slot) AS latest FROM upstream_calls
        WHERE failed_ms IS NOT NULL GROUP BY provider, upstream_model
    ) AS sums CROSS JOIN upstream_calls ON slot = latest
        AND upstream_calls.provider = sums.provider
        AND upstream_calls.upstream_model = sums.upstream_model
"""


class ObservationBook:
    def __init__(self, database: Database) -> None:
        self._database = database

    def read_refusals(self, account_id: int | None, since_ms: int) -> list[RefusalView]:
        """Sum the refusals since the hour of a time, the latest first; None: those of everybody."""
        wanted = {"account": account_id, "hour": since_ms // HOUR_MS}
        refusals = [RefusalView(*row) for row in self._database.read_rows(_REFUSALS, wanted)]
        return sorted(refusals, key=lambda one: one.last_ms, reverse=True)

    def read_upstream(self) -> list[UpstreamView]:
        """Return every provider's model that was asked within a month, by name."""
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
