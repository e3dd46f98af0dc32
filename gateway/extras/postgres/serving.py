"""A serving ledger in PostgreSQL: connect, prove, load, register as a node, serve.

Receipts and spending are read on a connection beside the rounds'.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Final

import psycopg

from gateway.base.deadlines import limit_seconds
from gateway.base.errors import LedgerUnavailable
from gateway.base.progress import Progress
from gateway.base.times import unix_ms
from gateway.extras.postgres import schema
from gateway.extras.postgres.feed import ChangeFeed, Listener
from gateway.extras.postgres.nodes import Node, Upkeep, leave, register
from gateway.extras.postgres.session import Session, connect, explain, find_clock
from gateway.extras.postgres.shared import SharedLedger, SharedWriter
from gateway.extras.postgres.store import PostgresStore
from gateway.extras.postgres.urls import show_url
from gateway.ledger.base import COMMIT_SECONDS
from gateway.ledger.records import LedgerError, LedgerMismatch
from gateway.ledger.serving.ledger import ServingLedger, reporting
from gateway.ledger.serving.memory import Memory, Snapshot
from gateway.ledger.sql.database import Rows, Values
from gateway.ledger.sql.rows import Lookups

log = logging.getLogger("gateway.ledger")

AGAIN_SECONDS: Final = 1
"""A read that fails within this time is repeated: its connection had ended before. Later failures are not."""


@asynccontextmanager
async def open_postgres(
    url: str,
    *,
    clock: Callable[[], int] = unix_ms,
    commit_seconds: float = COMMIT_SECONDS,
    tell: Callable[[str], None] = log.info,
    retention_months: int = 0,
    silence_seconds: float = schema.SILENCE_SECONDS,
    notice_seconds: float = schema.NOTICE_SECONDS,
) -> AsyncIterator[ServingLedger]:
    """Connect, audit, register as a node and load; at the end commit the queue and leave.

    All times are the database's, so that nodes whose clocks differ agree; another `clock` than the
    system's must tell the same time.

    Raises:
        LedgerMismatch: the audit since the last checkpoint failed.
        LedgerError: the database cannot be used; the text says why.
    """
    clock = find_clock(url) if clock is unix_ms else clock
    memory, feed = Memory(clock), ChangeFeed()
    async with reporting(tell) as progress:
        session, node, snapshot = await asyncio.to_thread(_load, url, feed, clock, progress)
    memory.apply(snapshot)
    upkeep = Upkeep(node, retention_months, silence_seconds=silence_seconds)
    store = PostgresStore(url, session, node, feed, upkeep, clock=clock)
    reader = PostgresReader(url)
    hang_seconds = min(notice_seconds, commit_seconds)
    writer = SharedWriter(store, memory, commit_seconds=commit_seconds, hang_seconds=hang_seconds)
    ledger = SharedLedger(store, memory, reader, clock, writer)
    listener = Listener(url, partial(_tell, asyncio.get_running_loop(), writer.poll))
    async with AsyncExitStack() as stack:
        stack.push_async_callback(reader.close)
        stack.push_async_callback(store.close, leave)  # behind all commits: it interrupts the rest
        stack.push_async_callback(ledger.close)
        stack.callback(listener.close)
        yield ledger


def _tell(loop: asyncio.AbstractEventLoop, poll: Callable[[], None]) -> None:
    # The listener's thread may outlive the loop by `NOTIFY_SECONDS`.
    if not loop.is_closed():
        loop.call_soon_threadsafe(poll)


def _load(
    url: str, feed: ChangeFeed, clock: Callable[[], int], progress: Progress
) -> tuple[Session, Node, Snapshot]:
    progress("connecting to the database")
    session = schema.open_session(url, create=True, progress=progress, waits=True)
    try:
        for problem in schema.find_lossy_settings(session):
            log.warning("%s: %s", show_url(url), problem)
        now_ms = clock()
        progress("proving the books since the last audit")
        _prove(session, url, now_ms)
        # What was imported as pending belongs to no node.
        session.execute("SELECT interrupt_requests(NULL, ?)", (now_ms,))
        progress("reading accounts, budgets and keys")
        snapshot = feed.read_all(session, now_ms)
        progress("joining the other gateways")
        # The last step: from now on the node must report that it lives.
        return session, register(session), snapshot
    except psycopg.Error as error:
        session.close()
        raise explain(url, error) from error
    except BaseException:
        session.close()
        raise


def _prove(session: Session, url: str, now_ms: int) -> None:
    report = schema.run_audit(session, full=False, now_ms=now_ms)
    if not report.ok:
        raise LedgerMismatch(
            f"{show_url(url)}: the books do not add up: {'; '.join(report.problems)}"
        )


class PostgresReader(Lookups):
    """Reads one after the other on a thread; connects when it first reads, and after a break.

    A read that hangs is broken off, so that later reads go on.
    """

    def __init__(self, url: str) -> None:
        self._url = url
        self._session: Session | None = None
        self._thread = ThreadPoolExecutor(1, "ledger-reader")

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown()

    async def fetch(self, sql: str, values: Values) -> Rows:
        loop = asyncio.get_running_loop()
        try:
            async with limit_seconds(COMMIT_SECONDS):
                return await loop.run_in_executor(self._thread, self._read, sql, values)
        except (psycopg.Error, LedgerError) as error:
            raise LedgerUnavailable from error
        except TimeoutError as error:
            if self._session is not None:
                # The thread still waits: only a broken connection frees it for the next read.
                self._session.break_off()
            raise LedgerUnavailable from error

    def _read(self, sql: str, values: Values) -> Rows:
        """Read. The connection may have ended with a server that is back by now: then connect again."""
        begun_seconds = time.monotonic()
        if self._session is not None and not self._session.is_broken:
            try:
                return self._session.execute(sql, values).fetchall()
            except psycopg.OperationalError:
                self._session.close()
                if time.monotonic() > begun_seconds + AGAIN_SECONDS:
                    raise  # it was broken off: nobody waits any more
        self._session = connect(self._url)
        return self._session.execute(sql, values).fetchall()

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()
