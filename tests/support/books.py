"""The gateway's database from outside: read-only, by another connection than the server's."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

SETTLE_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.005
"""A database has no event to wait for."""


@dataclass(frozen=True, slots=True)
class RequestRow:
    """What the ledger says of one request."""

    state: str
    cost_nano: int
    estimated: bool
    outcome: str
    input: int
    cached_input: int
    output: int


@dataclass(frozen=True, slots=True)
class Books:
    """Reads the database that a server or a command writes."""

    path: Path

    async def settled(self, request_id: str) -> RequestRow:
        """The request's row once it is no longer pending."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while True:
            row = self.request(request_id)
            if row is not None and row.state != "pending":
                return row
            assert time.monotonic() < deadline, f"not settled: {row}"
            await asyncio.sleep(POLL_SECONDS)

    async def charge_nano(self, request_id: str) -> int:
        """What the request was charged, held against the entries of its account."""
        row = await self.settled(request_id)
        charges = self._all("SELECT amount_nano FROM entries WHERE request_id = ?", request_id)
        assert len(charges) <= 1, charges
        assert row.cost_nano == -sum(amount for (amount,) in charges)
        return row.cost_nano

    def request(self, request_id: str) -> RequestRow | None:
        rows = self._all(
            "SELECT state, cost_nano, estimated, outcome, input_tokens, cached_input_tokens,"
            " output_tokens FROM requests WHERE id = ?",
            request_id,
        )
        if not rows:
            return None
        state, cost, estimated, outcome, *tokens = rows[0]
        return RequestRow(str(state), int(cost or 0), bool(estimated), str(outcome), *tokens)

    def balance_nano(self, account: str) -> int:
        """The sum of the account's entries, not the cached column."""
        ((total,),) = self._all(
            "SELECT coalesce(sum(e.amount_nano), 0) FROM entries e"
            " JOIN accounts a ON a.id = e.account_id WHERE a.name = ?",
            account,
        )
        return int(total)

    def cached_balance_nano(self, account: str) -> int:
        ((cached,),) = self._all("SELECT balance_nano FROM accounts WHERE name = ?", account)
        return int(cached)

    def count_pending(self) -> int:
        ((count,),) = self._all("SELECT count(*) FROM requests WHERE state = 'pending'")
        return int(count)

    def count_requests(self, account: str) -> int:
        ((count,),) = self._all(
            "SELECT count(*) FROM requests r JOIN accounts a ON a.id = r.account_id"
            " WHERE a.name = ?",
            account,
        )
        return int(count)

    def wait_for_no_holds(self) -> None:
        """Every hold is resolved within five seconds of the last request."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while pending := self.count_pending():
            assert time.monotonic() < deadline, f"{pending} holds are left open"
            time.sleep(POLL_SECONDS)

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
