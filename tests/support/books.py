"""Read the gateway's database from outside, read-only, through another connection; read events."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gateway.ledger.records import EventView
from gateway.ledger.sql.database import Database
from tests.support.waiting import until

SETTLE_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class RequestRow:
    """The ledger's row of one request."""

    state: str
    cost_nano: int
    estimated: bool
    outcome: str
    input: int
    cached_input: int
    output: int
    cache_write: int


@dataclass(frozen=True, slots=True)
class Books:
    """Reads the database that a server or a command writes."""

    path: Path

    async def settled(self, request_id: str) -> RequestRow:
        """Wait until the request is no longer pending and return its row."""
        await until(
            lambda: (row := self.request(request_id)) is not None and row.state != "pending",
            f"{request_id} to be settled",
            seconds=SETTLE_SECONDS,
        )
        row = self.request(request_id)
        assert row is not None
        return row

    async def charge_nano(self, request_id: str) -> int:
        """Return the charge of a request, checked against the entries of its account."""
        row = await self.settled(request_id)
        charges = self._all("SELECT amount_nano FROM entries WHERE request_id = ?", request_id)
        assert len(charges) <= 1, charges
        assert row.cost_nano == -sum(amount for (amount,) in charges)
        return row.cost_nano

    def request(self, request_id: str) -> RequestRow | None:
        rows = self._all(
            "SELECT state, cost_nano, estimated, outcome, input_tokens, cached_input_tokens,"
            " output_tokens, cache_write_tokens FROM requests WHERE id = ?",
            request_id,
        )
        if not rows:
            return None
        state, cost, estimated, outcome, *tokens = rows[0]
        return RequestRow(str(state), int(cost or 0), bool(estimated), str(outcome), *tokens)

    def hold_nano(self, request_id: str) -> int:
        ((held,),) = self._all("SELECT hold_nano FROM requests WHERE id = ?", request_id)
        return held

    def balance_nano(self, account: str) -> int:
        """Return the sum of the account's entries, not the cached column."""
        ((total,),) = self._all(
            "SELECT coalesce(sum(e.amount_nano), 0) FROM entries e"
            " JOIN accounts a ON a.id = e.account_id WHERE a.name = ?",
            account,
        )
        return int(total)

    def cached_balance_nano(self, account: str) -> int:
        ((cached,),) = self._all("SELECT balance_nano FROM accounts WHERE name = ?", account)
        return int(cached)

    def count_settled(self, account: str) -> int:
        ((count,),) = self._all(
            "SELECT count(*) FROM requests r JOIN accounts a ON a.id = r.account_id"
            " WHERE a.name = ? AND r.state <> 'pending'",
            account,
        )
        return int(count)

    def _all(self, sql: str, *parameters: object) -> list[tuple[int, ...]]:
        with self._connection() as connection:
            return connection.execute(sql, parameters).fetchall()

    @contextlib.contextmanager
    def _connection(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(f"file:{self.path}?mode=ro", uri=True, timeout=5)
        try:
            yield connection
        finally:
            connection.close()


def read_events(books: Database, limit: int, search: str = "") -> list[EventView]:
    """Return the latest events first; `search` is a part of the action."""
    sql = """
        SELECT id, at_ms, actor, action, account, target, detail, address FROM events
        WHERE action LIKE ? ORDER BY id DESC LIMIT ?
    """
    return [EventView(*row) for row in books.fetch(sql, (f"%{search}%", limit))]
