"""The ledger of one node in PostgreSQL."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial

import psycopg

from gateway.errors import LedgerUnavailable
from gateway.ledger.base import COMMIT_SECONDS, Admission, Hold, Key
from gateway.ledger.locations import DatabaseUrl
from gateway.ledger.postgres.audit import run_audit
from gateway.ledger.postgres.nodes import Node, leave, register
from gateway.ledger.postgres.schema import (
    NOTICE_SECONDS,
    SILENCE_SECONDS,
    find_lossy_settings,
    open_session,
)
from gateway.ledger.postgres.serving.feed import ChangeFeed
from gateway.ledger.postgres.serving.listener import Listener
from gateway.ledger.postgres.serving.reader import PostgresReader
from gateway.ledger.postgres.serving.store import PostgresStore
from gateway.ledger.postgres.serving.upkeep import Upkeep
from gateway.ledger.postgres.session import Session, explain, find_clock
from gateway.ledger.records import LedgerMismatch
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import Memory, QueuedHold, Snapshot, raise_hold, take_hold
from gateway.ledger.serving.observer import Observer
from gateway.ledger.serving.progress import Progress
from gateway.ledger.serving.writer import Writer
from gateway.times import unix_ms

log = logging.getLogger("gateway.ledger")


class PostgresLedger(ServingLedger):
    """Implements `base.Ledger`; made by `open`."""

    log_bytes = 0
    """PostgreSQL looks after its log itself."""

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        url: str,
        *,
        clock: Callable[[], int] = unix_ms,
        commit_seconds: float = COMMIT_SECONDS,
        tell: Callable[[str], None] = log.info,
        note_commit: Callable[[int, float], None] | None = None,
        retention_months: int = 0,
        silence_seconds: float = SILENCE_SECONDS,
        notice_seconds: float = NOTICE_SECONDS,
    ) -> AsyncIterator[PostgresLedger]:
        """Connect, audit, register as a node and load; at the end commit the queue and leave.

        All goes by the database's time, so that nodes whose clocks differ agree; another `clock` than
        the system's replaces it.

        Raises:
            LedgerMismatch: the audit since the last checkpoint failed.
            LedgerError: the database cannot be used; the text says why.
        """
        test_clock = _know_no_time if clock is unix_ms else clock
        if clock is unix_ms:
            clock = find_clock(url)
        memory, feed = Memory(clock), ChangeFeed()
        session, node, snapshot = await _load_beside(url, feed, clock, tell)
        memory.apply(snapshot)
        upkeep = Upkeep(
            node, retention_months, silence_seconds=silence_seconds, test_clock=test_clock
        )
        store = PostgresStore(url, session, node, feed, upkeep, clock=clock, test_clock=test_clock)
        writer = Writer(
            store, memory, note_commit,
            commit_seconds=commit_seconds, hang_seconds=min(notice_seconds, commit_seconds),
        )  # fmt: skip
        observer, reader = Observer(store, clock), PostgresReader(url)
        listener = Listener(url, partial(_tell, asyncio.get_running_loop(), writer))
        try:
            yield cls(memory, writer, reader, observer, clock=clock)
        finally:
            listener.close()
            writer.close()
            await writer.ended.wait()
            await observer.close()
            await store.close(leave)
            await reader.close()

    def hold(self, key: Key, admission: Admission) -> QueuedHold:
        """Decide by what this node knows; its memory of a balance is never less than the balance."""
        if not self._health.writable or self._writer.is_locked(key.account):
            raise LedgerUnavailable
        hold = take_hold(key, admission)
        hold.admitted = self._loop.create_future()
        hold.waiting_since_seconds = self._loop.time()
        self._writer.admit(hold)
        return hold

    def raise_hold(self, hold: Hold, amount_nano: int) -> None:
        assert isinstance(hold, QueuedHold)
        if hold.resolved or hold.settlement is not None or amount_nano <= hold.amount_nano:
            return
        raise_hold(hold, amount_nano)
        hold.raised = True
        if not self._writer.ended.is_set():
            self._writer.add(hold)


def _know_no_time() -> None:
    """Leave the time to the database."""


async def _load_beside(
    url: str, feed: ChangeFeed, clock: Callable[[], int], tell: Callable[[str], None]
) -> tuple[Session, Node, Snapshot]:
    """Load on a thread; the loop tells how it goes."""
    progress = Progress(tell)
    try:
        return await asyncio.to_thread(_load, url, feed, clock, progress.begin)
    finally:
        progress.end()


def _tell(loop: asyncio.AbstractEventLoop, writer: Writer) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(writer.look)


def _load(
    url: str, feed: ChangeFeed, clock: Callable[[], int], begin: Callable[[str], None]
) -> tuple[Session, Node, Snapshot]:
    begin("connecting to the database")
    session = open_session(url, create=True)
    try:
        for problem in find_lossy_settings(session):
            log.warning("%s: %s", DatabaseUrl(url), problem)
        now_ms = clock()
        begin("proving the books since the last audit")
        _prove(session, url, now_ms)
        # What was imported as pending belongs to no node.
        session.execute("SELECT interrupt_requests(NULL, ?)", (now_ms,))
        begin("reading accounts, budgets and keys")
        snapshot = feed.read_all(session, now_ms)
        # The last: from now on it must be heard of.
        return session, register(session), snapshot
    except psycopg.Error as error:
        session.close()
        raise explain(url, error) from error
    except BaseException:
        session.close()
        raise


def _prove(session: Session, url: str, now_ms: int) -> None:
    report = run_audit(session, full=False, now_ms=now_ms)
    if not report.ok:
        raise LedgerMismatch(
            f"{DatabaseUrl(url)}: the books do not add up: {'; '.join(report.problems)}"
        )
