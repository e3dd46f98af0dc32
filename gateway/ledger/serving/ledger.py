"""The part of a serving ledger that is the same with each database: memory, queue and waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from gateway.errors import InternalError, LedgerUnavailable
from gateway.ledger.base import Hold, Key, Settlement
from gateway.ledger.call_records import Receipt, Spent
from gateway.ledger.key_records import EndedKey
from gateway.ledger.serving.memory import (
    Memory,
    QueuedHold,
    make_pending_receipt,
    make_void,
    raise_hold,
)
from gateway.ledger.serving.observer import Observer
from gateway.ledger.serving.queue import fail_wait, find_failure
from gateway.ledger.serving.writer import Writer


class Reader(Protocol):
    """Reads what is not in memory. Raises LedgerUnavailable."""

    async def read_receipt(self, request_id: str) -> Receipt | None: ...

    async def read_spent(self, key: Key, today: int) -> Spent: ...

    async def read_ended_key(self, digest: bytes) -> EndedKey | None: ...


class ServingLedger:
    """Implements `base.Ledger`, but for `hold` and `log_bytes`, which subclasses add."""

    def __init__(
        self,
        memory: Memory,
        writer: Writer,
        reader: Reader,
        observer: Observer,
        *,
        clock: Callable[[], int],
    ) -> None:
        self.clock = clock
        self._writer = writer
        self._queue = writer.queue
        self._health = writer.health
        self._reader = reader
        self._loop = asyncio.get_running_loop()
        self.find_key = memory.find_key
        self.accounts = memory.accounts
        self.budgets = memory.budgets
        self.refresh = writer.refresh
        self.read_spent = reader.read_spent
        self.read_ended_key = reader.read_ended_key
        self.note_refusal = observer.note_refusal
        self.note_upstream_call = observer.note_upstream_call

    async def wait_ended(self) -> None:
        """Return when nothing will be committed any more. Raises why, if this process may not go on."""
        await self._writer.ended.wait()
        if self._writer.failure is not None:
            raise self._writer.failure

    @property
    def writable(self) -> bool:
        return self._health.writable

    @property
    def open_holds(self) -> int:
        return self._queue.open_holds

    async def confirm(self, hold: Hold) -> None:
        try:
            await self.wait_admitted(hold)
        except LedgerUnavailable:
            _ = self.settle(hold, make_void(hold.admission))  # it may be admitted yet
            raise

    async def wait_admitted(self, hold: Hold) -> None:
        assert isinstance(hold, QueuedHold)
        if hold.recorded:
            return
        if hold.resolved:  # resolved without a row: the ledger refused it
            refusal = None if hold.admitted is None else find_failure(hold.admitted)
            raise InternalError if refusal is None else refusal
        if self._writer.ended.is_set():
            raise LedgerUnavailable(should_retry=False)
        if hold.admitted is None or hold.admitted.cancelled():
            hold.admitted = self._loop.create_future()
            hold.waiting_since_seconds = self._loop.time()
            self._queue.ripen_all()  # a commit is due, and the rows of others cost it little
            self._writer.add(hold)
        await hold.admitted

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        assert isinstance(hold, QueuedHold)
        if hold.settled is None:
            hold.settled = self._loop.create_future()
            hold.settlement = settlement
            hold.waiting_since_seconds = self._loop.time()
            raise_hold(hold, settlement.cost_nano)
            if self._writer.ended.is_set():
                fail_wait(hold.settled, LedgerUnavailable(should_retry=False))
            else:
                self._writer.add(hold)
        return hold.settled

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        if not hold.resolved:
            raise_hold(hold, amount_nano)

    async def read_receipt(self, request_id: str) -> Receipt | None:
        hold = self._queue.find(request_id)
        if hold is not None and hold.settled is not None:
            await asyncio.wait((hold.settled,))
        if hold is not None and not hold.resolved:
            return make_pending_receipt(hold)
        return await self._reader.read_receipt(request_id)
