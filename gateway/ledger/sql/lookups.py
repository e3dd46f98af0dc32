"""Lookups of a serving process beside its rounds: receipts, spending, and keys that ended."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final, TypeVar

from gateway.ledger.base import Key
from gateway.ledger.call_records import Receipt, Spent
from gateway.ledger.key_records import EndedKey
from gateway.ledger.sql.connection import Connection, Value
from gateway.ledger.sql.receipts import read_receipt

Result = TypeVar("Result")

_SPENT: Final = """
    SELECT
        coalesce(sum(cost_nano) FILTER (WHERE day >= :today), 0),
        coalesce(sum(cost_nano) FILTER (WHERE day > :today - 7), 0),
        coalesce(sum(cost_nano), 0)
    FROM daily WHERE account_id = :account AND day > :today - 30 AND key_id = :key
"""
_ENDED_KEY: Final = "SELECT revoked_ms, expires_ms FROM keys WHERE digest = ?"


class Lookups(ABC):
    """Implements `serving.ledger.Reader`; each database has its own connection and thread for it."""

    async def read_receipt(self, request_id: str) -> Receipt | None:
        return await self._run(lambda connection: read_receipt(connection, request_id=request_id))

    async def read_spent(self, key: Key, today: int) -> Spent:
        values: dict[str, Value] = {"account": key.account.id, "key": key.id, "today": today}
        return Spent(
            *await self._run(lambda connection: connection.execute(_SPENT, values).fetchone())
        )

    async def read_ended_key(self, digest: bytes) -> EndedKey | None:
        row = await self._run(
            lambda connection: connection.execute(_ENDED_KEY, (digest,)).fetchone()
        )
        return None if row is None else EndedKey(*row)

    @abstractmethod
    async def _run(self, read: Callable[[Connection], Result]) -> Result:
        """Read on the connection's thread. Raises LedgerUnavailable."""
