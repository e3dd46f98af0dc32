"""A ledger with scripted commits: at once, late, after callers gave up, or never.

Memory, queue, writer and transactions are those that run; the store's rounds take as long as a script
says. Half of the ledgers are shared, if an extra has such: they decide in `confirm`, may decline, and break off
what hangs.
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
import sqlite3
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from gateway.base.errors import GatewayError
from gateway.ledger.base import COMMIT_SECONDS, Admission, Aside, AsideEnd, Hold, Key, Settlement
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import Memory
from gateway.ledger.serving.queue import Item, Report
from gateway.ledger.serving.writer import Writer
from gateway.ledger.sqlite.books import run_audit
from gateway.ledger.sqlite.polls import ChangeFeed
from gateway.ledger.sqlite.store import SqliteStore
from tests.api.lives.loop import DELAYS, Log
from tests.ledger.kit import make_place
from tests.support.extras import find_modules

COMMITS: Final = (*DELAYS, 4.0, 6.0)
"""How long a commit takes: one takes longer than the gateway waits."""
Took = Callable[[Report | BaseException], None]


@functools.cache
def _make_books() -> tuple[bytes, bytes]:
    """Return a database with one account and one key, and the digest of the key."""
    with tempfile.TemporaryDirectory() as folder:
        place = make_place(Path(folder))
        content = bytearray(place.path.read_bytes())
    content[18:20] = b"\1\1"  # SQLite keeps no write-ahead log in memory
    return bytes(content), place.digest


class ScriptedStore(SqliteStore):
    """Rounds on a database in memory, whose time is that of the dice."""

    def __init__(self, database: sqlite3.Connection, dice: random.Random) -> None:
        content, self.digest = _make_books()
        self.connection = database
        self.connection.deserialize(content)
        self.feed = ChangeFeed()
        thread: Any = None
        files: Any = SimpleNamespace(check=lambda **_: None)
        wal: Any = SimpleNamespace(look_after=lambda *_, **__: None, size_bytes=0)
        super().__init__(thread, self.feed, wal, files, clock=lambda: 0)
        self.sharing = next(iter(find_modules("lives").values()), None)
        self.is_shared = dice.random() < 0.5 and self.sharing is not None
        self._row_seconds = dice.choice((0.0, *DELAYS, 4.0) if self.is_shared else COMMITS)
        self._end_seconds = dice.choice((*COMMITS, math.inf) if self.is_shared else COMMITS)
        self._refuses = dice.random() < 0.03
        self._declines = self.is_shared and dice.random() < 0.1
        self.hangs = self._end_seconds > COMMIT_SECONDS and self.is_shared
        """True if the end of a request that begins is never committed."""
        self._round: tuple[asyncio.TimerHandle | None, Took] | None = None

    def start_round(self, items: Sequence[Item], *, polls: bool, report: Took) -> None:
        loop, timer = asyncio.get_running_loop(), None
        if self.sharing is not None and self.is_shared:
            report = self.sharing.share(report)
        if not items:  # nobody else changes anything
            loop.call_soon(report, Report(polled=polls))
            return
        seconds = max(self._take_seconds(item) for item in items)
        if not math.isinf(seconds):
            timer = loop.call_later(seconds, self._end_round, items, polls, report)
        self._round = timer, report

    def start_aside(self, write: Aside, report: AsideEnd) -> None:
        del write  # it is no part of the books
        asyncio.get_running_loop().call_soon(report, None)

    def break_off(self) -> None:
        if self.is_shared and self._round is not None:
            timer, report = self._round
            if timer is not None:
                timer.cancel()
            report(Report(unavailable=OSError("broken off")))

    def _take_seconds(self, item: Item) -> float:
        return self._row_seconds if item.settlement is None else self._end_seconds

    def _end_round(self, items: Sequence[Item], polls: bool, report: Took) -> None:
        self._round = None
        rows = [item for item in items if item.insert]
        if rows and self._declines and self.sharing is not None:
            report(self.sharing.decline(rows))
        elif rows and self._refuses:
            report(Report(refused=[(item, sqlite3.IntegrityError("refused")) for item in rows]))
        else:
            report(self._run_round(self.connection, items=items, now_ms=0, polls=polls))


class WatchedLedger(ServingLedger):
    """A ledger of one request, which notes what is asked of it."""

    def __init__(
        self, store: ScriptedStore, log: Log, make_writer: Callable[..., Writer] = Writer
    ) -> None:
        self.store, memory, nobody = store, Memory(lambda: 0), SimpleNamespace()
        nobody.read_spent = nobody.read_ended_key = nobody.fetch = None
        memory.apply(self.store.feed.read_all(self.store.connection, 0))
        reader: Any = nobody
        writer = make_writer(store, memory, commit_seconds=COMMIT_SECONDS)
        super().__init__(store, memory, reader, lambda: 0, writer)
        self._log = log
        self.is_caller_lost: Callable[[], bool] = lambda: False
        self.holds: list[Hold] = []
        self.settlements: list[Settlement] = []
        self.confirmed = False
        self.declined = False
        self._is_confirming = False

    @property
    def key(self) -> Key:
        key = self.find_key(self.store.digest)
        assert key is not None
        return key

    @property
    def committed(self) -> str | None:
        """The outcome that is in the books."""
        row = self._read("SELECT outcome FROM requests WHERE state <> 'pending'")
        return None if row is None else str(row[0])

    @property
    def charged_nano(self) -> int:
        """The sum of the charges."""
        row = self._read("SELECT -total(amount_nano) FROM entries WHERE kind = 'charge'")
        assert row is not None
        return int(row[0])

    def audit(self) -> tuple[str, ...]:
        return run_audit(self.store.connection, full=True, now_ms=0).problems

    def _read(self, sql: str) -> tuple[Any, ...] | None:
        row: tuple[Any, ...] | None = self.store.connection.execute(sql).fetchone()
        return row

    def hold(self, key: Key, admission: Admission) -> Hold:
        hold = super().hold(key, admission)
        self.holds.append(hold)
        return hold

    async def confirm(self, hold: Hold) -> None:
        self._log.check(not self.confirmed, "a hold is confirmed twice")
        self._is_confirming = True
        try:
            await super().confirm(hold)
        except GatewayError as error:
            self.declined = True
            self._log.note(f"declined: {error}")
            raise
        finally:
            self._is_confirming = False
        self.confirmed = True

    async def wait_admitted(self, hold: Hold) -> None:
        is_in_force = self.confirmed or self._is_confirming
        self._log.check(is_in_force, "a head is asked for before the hold is in force")
        await super().wait_admitted(hold)

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        self._log.check(not self.settlements, "a hold is raised behind its settlement")
        self._log.check(amount_nano > hold.amount_nano, "a hold is raised to less")
        super().raise_hold(hold, amount_nano)

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        if self._is_confirming:  # the ledger's own void
            return super().settle(hold, settlement)
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


def make_ledger(database: sqlite3.Connection, dice: random.Random, log: Log) -> WatchedLedger:
    store = ScriptedStore(database, dice)
    if store.sharing is None or not store.is_shared:
        return WatchedLedger(store, log)
    shared: WatchedLedger = store.sharing.SharedLife(store, log)
    return shared
