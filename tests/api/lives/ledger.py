"""The reference ledger with scripted commits: at once, late, after callers gave up, or never.

It may take a while to confirm a hold, and may decline it.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable
from typing import Final

from gateway.errors import BalanceHeld
from gateway.ledger.base import Admission, Hold, Key, Settlement
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import StoredSecret
from tests.api.lives.loop import DELAYS, Log
from tests.ledger.memory import Disk, MemoryBooks, MemoryHold, MemoryLedger, MemoryStorage

COMMITS: Final = (*DELAYS, 4.0, 6.0, math.inf)
"""How long a commit takes: some take longer than the gateway waits, and one kind never ends."""
DIGEST: Final = b"k" * 32


class ScriptedDisk(Disk):
    """The commits of one request."""

    def __init__(self, dice: random.Random) -> None:
        self._row_seconds = dice.choice(COMMITS)
        self._end_seconds = dice.choice(COMMITS)
        self.hangs = math.isinf(self._end_seconds)
        """Whether the commit of the settlement never ends."""
        self._refuses = dice.random() < 0.03 and not self.hangs
        self.confirm_seconds = dice.choice((0.0, *DELAYS, 4.0))
        self.declines = dice.random() < 0.05
        if self.declines:
            self._row_seconds = math.inf

    def take_seconds(self, settlement: Settlement | None) -> float:
        return self._row_seconds if settlement is None else self._end_seconds

    def refuses(self, hold: Hold) -> bool:  # noqa: ARG002 - there is one
        return self._refuses


class WatchedLedger(MemoryLedger):
    """A ledger of one request, which notes what is asked of it."""

    def __init__(self, dice: random.Random, log: Log) -> None:
        self.disk = ScriptedDisk(dice)
        self._kept = MemoryStorage()
        super().__init__(self._kept, self.disk, clock=lambda: 0)
        books = MemoryBooks(self._kept, clock=lambda: 0)
        books.accounts.create("a", credit_nano=10**12, operator=False)
        books.keys.create("a", KeyTerms(), StoredSecret("k", DIGEST, "last"))
        self._log = log
        self.is_caller_lost: Callable[[], bool] = lambda: False
        self.holds: list[Hold] = []
        self.settlements: list[Settlement] = []
        self.confirmed = False
        self.declined = False

    @property
    def key(self) -> Key:
        return self._kept.keys[DIGEST]

    @property
    def committed(self) -> Settlement | None:
        """The end that is in the books."""
        return next((one.settlement for one in self._kept.requests.values()), None)

    @property
    def charged_nano(self) -> int:
        """The sum of the charges."""
        charges = (entry for entry in self._kept.entries if entry.kind == "charge")
        return -sum(entry.amount_nano for entry in charges)

    def audit(self) -> tuple[str, ...]:
        return self._kept.audit().problems

    def hold(self, key: Key, admission: Admission) -> MemoryHold:
        hold = super().hold(key, admission)
        self.holds.append(hold)
        return hold

    async def confirm(self, hold: Hold) -> None:
        self._log.check(not self.confirmed, "a hold is confirmed twice")
        if self.disk.confirm_seconds:
            await asyncio.sleep(self.disk.confirm_seconds)
        if self.disk.declines:
            self.declined = True
            self.decline(hold)
            self._log.note("declined")
            raise BalanceHeld("others hold it")
        self.confirmed = True

    async def wait_admitted(self, hold: Hold) -> None:
        self._log.check(self.confirmed, "a head is asked for before the hold is in force")
        await super().wait_admitted(hold)

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        self._log.check(not self.settlements, "a hold is raised behind its settlement")
        self._log.check(amount_nano > hold.amount_nano, "a hold is raised to less")
        super().raise_hold(hold, amount_nano)

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        self.settlements.append(settlement)
        self._log.check(not self.declined, "what was declined is settled")
        is_told = settlement.outcome == "caller_left" or not self.is_caller_lost()
        self._log.check(is_told, "a caller that left is taken for one that is there")
        self._log.note(f"settle {settlement.outcome} {settlement.status} {settlement.cost_nano}")
        settled = super().settle(hold, settlement)
        settled.add_done_callback(self._note_end)
        return settled

    def _note_end(self, settled: asyncio.Future[None]) -> None:
        how = "cancelled" if settled.cancelled() else settled.exception() or "committed"
        self._log.note(f"the wait for the settlement: {how}")
