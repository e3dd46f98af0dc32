"""A ledger that commits at once, late, after its callers gave up, or never."""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from gateway.errors import GatewayError, InternalError, LedgerUnavailable
from gateway.ledger import Admission, Hold, Key, Settlement
from tests.api.lives.loop import DELAYS, Log

COMMIT_SECONDS: Final = 5.0
COMMITS: Final = (*DELAYS, 4.0, 6.0, math.inf)
"""How long a commit takes: some take longer than the gateway waits, and one kind never ends."""


class FakeLedger:
    """One request's part of a `Ledger`, in memory."""

    writable = True

    def __init__(self, dice: random.Random, log: Log, *, stream: bool) -> None:
        self._log = log
        self._stream = stream
        self._admit_seconds = dice.choice(COMMITS)
        self._settle_seconds = dice.choice(COMMITS)
        self._refuses = dice.random() < 0.03 and not self.hangs
        self.holds = 0
        self.settlements: list[Settlement] = []
        self.committed: Settlement | None = None
        self.released = 0
        self._queued: Settlement | None = None
        self._admitted: asyncio.Future[None] | None = None
        self._settled: asyncio.Future[None] | None = None

    @property
    def hangs(self) -> bool:
        """Whether the commit of the settlement never ends."""
        return math.isinf(self._settle_seconds)

    @property
    def charged_nano(self) -> int:
        return 0 if self.committed is None else self.committed.cost_nano

    def hold(self, key: Key, admission: Admission) -> Hold:
        self.holds += 1
        return Hold(admission, key.account, key, admission.hold_nano)

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        self._log.check(not self.settlements, "a hold is raised behind its settlement")
        self._log.check(amount_nano > hold.amount_nano, "a hold is raised to less")
        hold.amount_nano = amount_nano

    async def wait_admitted(self, hold: Hold) -> None:  # noqa: ARG002 - there is one
        if self._refuses:
            self._refuse()
            raise InternalError
        if self._admitted is None:
            self._admitted = self._commit_after(
                self._admit_seconds, commit=lambda: None, withdraw=lambda: None
            )
        await asyncio.shield(self._admitted)

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:  # noqa: ARG002
        self.settlements.append(settlement)
        self._log.note(f"settle {settlement.outcome} {settlement.status} {settlement.cost_nano}")
        if self._settled is None:
            self._queued = settlement
            self._settled = self._commit_after(
                self._settle_seconds, commit=self._commit, withdraw=self._withdraw
            )
        return self._settled

    def _commit(self) -> None:
        if self._refuses:
            self._refuse()
            return
        assert self._queued is not None
        self.committed = self._queued
        self.released += 1
        self._log.note(f"committed {self.committed.outcome}")

    def _withdraw(self) -> None:
        """Void the charge of a JSON reply, which was not delivered; keep that of a stream."""
        assert self._queued is not None
        if not self._stream and self._queued.is_posted:
            self._log.note("withdrawn")
            self._queued = replace(self._queued, outcome="ledger_error", cost_nano=0, status=503)

    def _refuse(self) -> None:
        """Refuse a bad row: the hold is dropped when the first commit finds it."""
        self.released = 1

    def _commit_after(
        self, seconds: float, *, commit: Callable[[], None], withdraw: Callable[[], None]
    ) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()

        def finish() -> None:
            commit()
            if self._refuses:
                _fail(waiter, InternalError())
            elif not waiter.done():
                waiter.set_result(None)

        def give_up() -> None:
            if _fail(waiter, LedgerUnavailable(should_retry=False)):
                withdraw()

        if math.isfinite(seconds):
            loop.call_later(seconds, finish)
        loop.call_later(COMMIT_SECONDS, give_up)
        return waiter


def _fail(waiter: asyncio.Future[None], error: GatewayError) -> bool:
    """Fail a wait; return whether it was still going on."""
    if waiter.done():
        return False
    waiter.set_exception(error)
    waiter.exception()  # nobody may be waiting, and asyncio would report the error as unseen
    return True
