"""The audit of a database that several nodes share: the proof of the books, and of what is held."""

from __future__ import annotations

from typing import Final

from gateway.ledger.postgres.session import Session, snapshot, transaction
from gateway.ledger.records import AuditReport
from gateway.ledger.sql.audit import (
    Check,
    prove,
    read_checkpoint,
    read_last_entry,
    write_checkpoint,
)

_HELD: Final = """
    SELECT {table}.id, {table}.{sum}, coalesce(pending.amount_nano, 0)
    FROM {table} LEFT JOIN (
        SELECT {column}, sum({amount}) AS amount_nano
        FROM requests JOIN (SELECT id, origin_id FROM keys) AS used ON used.id = key_id
        WHERE state = 'pending' GROUP BY 1
    ) AS pending ON pending.{column} = {table}.id
    WHERE {table}.{sum} <> coalesce(pending.amount_nano, 0)
"""
_IN_FLIGHT: Final = """
    SELECT {table}.id, in_flight, coalesce(pending.requests, 0)
    FROM {table} LEFT JOIN (
        SELECT {column}, count(*) AS requests FROM requests WHERE state = 'pending' GROUP BY 1
    ) AS pending ON pending.{column} = {table}.id
    WHERE in_flight <> coalesce(pending.requests, 0)
"""
_ORPHANS: Final = """
    SELECT requests.id FROM requests
    LEFT JOIN keys ON keys.id = key_id AND keys.account_id = requests.account_id
    WHERE keys.id IS NULL
"""
_LOST_BUDGETS: Final = """
    SELECT requests.id, budget_id FROM requests LEFT JOIN budgets ON budgets.id = budget_id
    WHERE budget_id IS NOT NULL AND budgets.id IS NULL
"""
_LOST_PRICES: Final = """
    SELECT requests.id, price_id FROM requests LEFT JOIN prices ON prices.id = price_id
    WHERE prices.id IS NULL
"""
_LOST_REQUESTS: Final = """
    SELECT id, request_id FROM entries
    WHERE kind = 'correction' AND request_id >= :kept_id
        AND NOT EXISTS (SELECT 1 FROM requests WHERE requests.id = request_id)
"""
"""Charges have a check of their own."""
_ORPHAN_ENTRIES: Final = """
    SELECT entries.id FROM entries LEFT JOIN accounts ON accounts.id = account_id
    WHERE accounts.id IS NULL
"""
_CHARGED_TWICE: Final = """
    SELECT request_id, count(*) FROM entries WHERE kind = 'charge'
    GROUP BY request_id HAVING count(*) > 1
"""
_CONTRADICTIONS: Final = """
    SELECT id, state, outcome FROM requests
    WHERE (state = 'pending') <> (outcome = 'pending')
        OR (state = 'pending') <> (ended_ms IS NULL)
        OR (outcome IN ('pending', 'interrupted')) <> (status IS NULL)
        OR (outcome = 'interrupted' AND state <> 'voided')
        OR (state <> 'posted' AND (
            cost_nano > 0 OR provider_cost_nano IS NOT NULL OR reported_cost_nano IS NOT NULL
        ))
"""
"""SQLite refuses such rows; here they would cost each round the time to compile their rules."""
_SUMS: Final = (
    ("held_nano", "hold_nano", "held is {1}, its pending requests hold {2} nano-units"),
    ("unheld_nano", "unheld_nano", "not held is {1}, its pending requests say {2} nano-units"),
)
"""Sums of pending requests, the column that is summed, and the complaint."""
_SCOPES: Final = (
    ("account", "accounts", "account_id"),
    ("key", "keys", "origin_id"),
    ("budget", "budgets", "budget_id"),
)
_COUNT_MESSAGE: Final = "{what} {{0}}: it has {{1}} in flight, and {{2}} requests pending"


CHECKS: Final = (
    *(
        Check(
            _HELD.format(table=table, column=column, sum=total, amount=amount),
            f"{what} {{0}}: {complaint}",
        )
        for what, table, column in _SCOPES
        for total, amount, complaint in _SUMS
    ),
    Check(
        _IN_FLIGHT.format(table="accounts", column="account_id"),
        _COUNT_MESSAGE.format(what="account"),
    ),
    Check(_IN_FLIGHT.format(table="keys", column="key_id"), _COUNT_MESSAGE.format(what="key")),
    Check(_CONTRADICTIONS, "request {0}: {1}, {2}: its end, status or costs are another state's"),
    Check(_ORPHANS, "request {0}: it has no key of its account"),
    Check(_LOST_BUDGETS, "request {0}: its budget {1} is missing"),
    Check(_LOST_PRICES, "request {0}: its price {1} is missing"),
    Check(_LOST_REQUESTS, "entry {0}: it corrects request {1}, which is missing"),
    Check(_ORPHAN_ENTRIES, "entry {0}: it has no account"),
    Check(_CHARGED_TWICE, "request {0}: charged {1} times"),
)


def run_audit(session: Session, *, full: bool, now_ms: int) -> AuditReport:
    """Prove everything, or only entries and balances since the last checkpoint (at the start).

    A success becomes the next checkpoint. Other nodes go on meanwhile. Raises psycopg.Error.
    """
    with transaction(session):  # no round is under way: later entries have later numbers
        last = read_last_entry(session)
    # What is committed between the two is proven, but the checkpoint does not reach so far.
    with snapshot(session):
        (kept_from_ms,) = session.execute("SELECT kept_from_ms FROM retention").fetchone() or (0,)
        since = 0 if full else read_checkpoint(session)
        report = prove(
            session, since, full=full, kept_from_ms=int(kept_from_ms), more_checks=CHECKS
        )
    if report.ok:
        with transaction(session):
            write_checkpoint(session, last, now_ms)
    return report
