"""What a serving process looks up beside its rounds: spending, and keys that ended."""

from __future__ import annotations

from typing import Final

from gateway.ledger.key_records import EndedKey
from gateway.ledger.sql.connection import Connection, Value
from gateway.ledger.usage_records import Spent

_SPENT: Final = """
    SELECT
        coalesce(sum(cost_nano) FILTER (WHERE day >= :today), 0),
        coalesce(sum(cost_nano) FILTER (WHERE day > :today - 7), 0),
        coalesce(sum(cost_nano), 0)
    FROM daily WHERE account_id = :account AND day > :today - 30 AND key_id = :key
"""
_ENDED_KEY: Final = "SELECT revoked_ms, expires_ms FROM keys WHERE digest = ?"


def read_ended_key(connection: Connection, *, digest: bytes) -> EndedKey | None:
    row = connection.execute(_ENDED_KEY, (digest,)).fetchone()
    return None if row is None else EndedKey(*row)


def read_spent(connection: Connection, *, account_id: int, key_id: str, today: int) -> Spent:
    wanted: dict[str, Value] = {"account": account_id, "key": key_id, "today": today}
    return Spent(*connection.execute(_SPENT, wanted).fetchone())
