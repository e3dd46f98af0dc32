"""Rounds in PostgreSQL, one after the other on one connection.

A round is one call and one transaction, which the event loop sends and awaits itself; what else the
connection does now and then blocks a thread. If the connection breaks before its answer, nobody knows
whether it was committed: its requests are in doubt, and the next rounds look them up by their ids.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Final, TypeVar, TypeVarTuple

import orjson
import psycopg
from psycopg import errors

from gateway.base.turns import spawn
from gateway.extras.postgres import messages, nodes
from gateway.extras.postgres.feed import ChangeFeed
from gateway.extras.postgres.schema import open_session
from gateway.extras.postgres.session import Session, describe
from gateway.extras.postgres.shared import SharedReport
from gateway.ledger.base import Account, Aside, AsideEnd
from gateway.ledger.records import LedgerError
from gateway.ledger.serving.memory import Snapshot, make_void
from gateway.ledger.serving.queue import Item, NotPendingError, RoundEnd

log = logging.getLogger("gateway.ledger")

Arguments = TypeVarTuple("Arguments")
Result = TypeVar("Result")

CLOSE_SECONDS: Final = 5
"""Seconds for which a node tries to say that it ends: a server that hangs must not hold up the end of the
process."""

_ADD_PRICES: Final = b"SELECT add_prices($1)"
_ROUND: Final = b"SELECT run_round($1, $2, $3, $4, $5)"
_ROUND_APART: Final = b"SELECT run_round_apart($1, $2, $3, $4, $5)"
_WITHDRAW: Final = b"SELECT withdraw_charge($1, $2, $3, $4)"
_BAD_ITEM: Final = (psycopg.DataError, psycopg.IntegrityError, orjson.JSONEncodeError)
"""Errors of one item's values or of a rule it breaks: it would fail each batch."""
_IN_THE_WAY: Final = (errors.DeadlockDetected, errors.SerializationFailure, errors.LockNotAvailable)


class UnknownError(Exception):
    """The database does not know the account, the key or the budget of a request."""


class PostgresStore:
    """Carries out the rounds of one node."""

    log_bytes = 0
    """PostgreSQL looks after its log itself."""

    def __init__(
        self,
        url: str,
        session: Session,
        node: nodes.Node,
        feed: ChangeFeed,
        upkeep: nodes.Upkeep,
        *,
        clock: Callable[[], int],
    ) -> None:
        self._url = url
        self._session = session
        self._node = node
        self._feed = feed
        self._upkeep = upkeep
        self._clock = clock
        self._in_doubt: set[str] = set()
        """Requests of a round that is under way, or had no answer."""
        self._locked: set[Account] = set()
        """Accounts with rows that another program has locked. Their items are committed last, one account at a time."""
        self._known_prices: set[int] = set()
        self._turn = asyncio.Lock()
        """Guards the connection: its holder may use it."""
        self._thread = ThreadPoolExecutor(1, "ledger")

    def start_round(self, items: Sequence[Item], *, polls: bool, report: RoundEnd) -> None:
        _ = spawn(self._run(self._work(items, polls=polls), report), name="round")

    def start_aside(self, write: Aside, report: AsideEnd) -> None:
        _ = spawn(self._run(self._write_aside(write), report), name="aside")

    def break_off(self) -> None:
        self._session.break_off()

    async def close(self, last: Callable[[Session, nodes.Node], None]) -> None:
        """Do the final work if the database can be reached, and end the connection."""
        async with self._turn:
            closed = spawn(self._block(self._close, last), name="closing")
            # A server that hangs must not hold up the end of the process.
            if not (await asyncio.wait((closed,), timeout=CLOSE_SECONDS))[0]:
                self.break_off()
            await closed
        self._thread.shutdown()

    async def _run(
        self,
        work: Coroutine[object, None, Result],
        report: Callable[[Result | BaseException], None],
    ) -> None:
        result: Result | BaseException
        # One connection takes one command at a time: sums are written between two rounds.
        async with self._turn:
            try:
                result = await work
            except Exception as error:  # noqa: BLE001 - it is reported
                result = error
        report(result)

    async def _block(self, work: Callable[[*Arguments], Result], *arguments: *Arguments) -> Result:
        """Do blocking work on the thread."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    def _close(self, last: Callable[[Session, nodes.Node], None]) -> None:
        try:
            last(self._connect(), self._node)
        except (psycopg.Error, LedgerError) as error:
            log.warning("this node could not say that it ends: %s", describe(error))
        self._session.close()

    def _connect(self) -> Session:
        if self._session.is_broken:
            self._session = open_session(self._url)
            try:
                # A connection that has not taken the next epoch
                # must not be used, so it is closed on any error.
                nodes.renew(self._session, self._node)
            except BaseException:
                self._session.close()
                raise
        return self._session

    async def _write_aside(self, write: Aside) -> None:
        try:
            await self._block(lambda: nodes.write_aside(self._connect(), write))
        except psycopg.Error as error:
            raise LedgerError(describe(error)) from error

    async def _work(self, items: Sequence[Item], *, polls: bool) -> SharedReport:
        report = SharedReport()
        try:
            if polls or self._session.is_broken:
                report.snapshot = await self._block(self._look)
                report.polled = True
                # To connect takes long if the server is away: charges may have been withdrawn meanwhile.
                items = [one for one in items if one.settlement in (None, one.hold.settlement)]
            await self._commit_all(items, report)
        except (psycopg.Error, LedgerError) as error:
            self._note_failure(error, report)
        return report

    def _look(self) -> Snapshot | None:
        """Connect if necessary, and read other processes' changes."""
        session = self._connect()
        self._upkeep.run(session)
        return self._feed.poll(session)

    async def _commit_all(self, items: Sequence[Item], report: SharedReport) -> None:
        """Commit free accounts' items together, then items that were locked at the last try."""
        locked = [item for item in items if item.hold.account in self._locked]
        if locked:
            items = [item for item in items if item.hold.account not in self._locked]
        await self._commit_steps(items, report)
        # Behind all others: each waits for its lock as long as PostgreSQL is told to.
        await self._commit_steps(locked, report, apart=True)

    async def _commit_steps(
        self, items: Sequence[Item], report: SharedReport, *, apart: bool = False
    ) -> None:
        """Settle and admit; requests that came and ended since the last round take another one."""
        await self._commit(items, report, apart=apart)
        # By identity, as items cannot be hashed.
        turned_away = {id(item) for item, _ in (*report.declined, *report.refused)}
        over = [one for one in items if one.insert and one.settlement is not None]
        admitted = [
            one
            for one in over
            if id(one) not in turned_away and one.hold.account not in report.locked
        ]
        await self._commit(admitted, report, are_admitted=True, apart=apart)

    async def _commit(
        self,
        items: Sequence[Item],
        report: SharedReport,
        *,
        are_admitted: bool = False,
        apart: bool = False,
    ) -> None:
        """Commit the items together; if one is bad, one by one; if one is locked, all but its account's.

        `apart`: account by account.
        """
        again = partial(self._commit, report=report, are_admitted=are_admitted)
        asked = [item for item in items if item.insert and not are_admitted]
        known = [item for item in items if not item.insert or are_admitted]
        ended = [item for item in known if item.settlement is not None]
        raised = [item for item in known if item.settlement is None]
        if not items:
            return
        try:
            answer = await self._call(ended, raised, asked, apart=apart)
        except errors.LockNotAvailable:
            if apart:
                raise
            await again(items, apart=True)
        except _BAD_ITEM as error:
            if len(items) == 1:
                if not asked:
                    await self._release(items[0])
                report.refused.append((items[0], LedgerError(describe(error))))
                self._in_doubt.discard(items[0].request_id)
                return
            # The transaction is undone as a whole, and the server does not say whose fault it was.
            for item in items:
                await again([item], apart=apart)
        else:
            self._note_locks(items, answer, report)
            report.done.extend(_free(raised, report))
            self._report_admissions(_free(asked, report), answer, report)
            await self._report_settlements(_free(ended, report), answer, report)

    def _note_locks(
        self, items: Sequence[Item], answer: messages.RoundAnswer, report: SharedReport
    ) -> None:
        if not (answer.locked or self._locked):
            return
        tried = {item.hold.account for item in items}
        locked = {account for account in tried if account.id in answer.locked}
        report.locked |= locked
        report.freed |= (tried & self._locked) - locked
        self._locked = self._locked - tried | locked

    async def _release(self, item: Item) -> None:
        """End an admitted request whose item is bad: its hold would be in the way of others."""
        hold = item.hold
        end = Item(hold, insert=False, settlement=make_void(hold.admission))
        with suppress(*_BAD_ITEM):
            await self._call([end], (), (), apart=True)

    async def _call(
        self, ended: Sequence[Item], raised: Sequence[Item], asked: Sequence[Item], *, apart: bool
    ) -> messages.RoundAnswer:
        now_ms = self._clock()
        prices, new_prices = messages.write_prices((*ended, *asked), self._known_prices)
        if new_prices:
            # A transaction of their own: all nodes write the same prices, and a round holds its locks long.
            await self._session.fetch_value(_ADD_PRICES, (prices,))
            self._known_prices |= new_prices
        values = (
            self._node.id,
            self._node.epoch,
            messages.write_settlements(ended, now_ms),
            messages.write_raises(raised),
            messages.write_admissions(asked, self._in_doubt, now_ms),
        )
        ids = {item.request_id for item in (*ended, *asked)}
        # Only what this round brought into doubt may be taken out again when it is refused as a whole.
        new = ids - self._in_doubt
        self._in_doubt |= ids  # until its end is reported: a later step of this round may fail
        try:
            reply = await self._session.fetch_value(_ROUND_APART if apart else _ROUND, values)
        except (*_BAD_ITEM, errors.LockNotAvailable):
            self._in_doubt -= new
            raise
        answer = messages.read_answer(reply, doubted=ids - new)
        if answer.locked:
            left = (one for one in (*ended, *asked) if one.hold.account.id in answer.locked)
            self._in_doubt -= new & {one.request_id for one in left}
        return answer

    def _report_admissions(
        self, asked: Sequence[Item], answer: messages.RoundAnswer, report: SharedReport
    ) -> None:
        report.in_full.extend(item for item in asked if item.request_id in answer.in_full)
        for item in asked:
            if (declined := answer.declined.get(item.request_id)) is not None:
                report.declined.append((item, messages.make_refusal(item, declined.reason)))
                messages.note_spent(item, declined, report)
                self._in_doubt.discard(item.request_id)
            elif item.request_id not in answer.admitted:
                report.refused.append((item, UnknownError("its account, key or budget is missing")))
                self._in_doubt.discard(item.request_id)
            elif item.settlement is None:
                report.done.append(item)
                self._in_doubt.discard(item.request_id)

    async def _report_settlements(
        self, ended: Sequence[Item], answer: messages.RoundAnswer, report: SharedReport
    ) -> None:
        report.balances_nano.update(answer.balances_nano)
        report.spent_nano.update(answer.spent_nano)
        report.spendings.update(messages.find_spendings(answer, ended))
        for item in ended:
            try:
                is_done = item.request_id in answer.settled or await self._was_settled(
                    item, answer, report
                )
            except errors.LockNotAvailable:
                self._locked.add(item.hold.account)
                report.locked.add(item.hold.account)
                continue
            if is_done:
                report.done.append(item)
            else:
                report.refused.append(
                    (item, NotPendingError("it is missing, or was settled before"))
                )
            self._in_doubt.discard(item.request_id)

    async def _was_settled(
        self, item: Item, answer: messages.RoundAnswer, report: SharedReport
    ) -> bool:
        """Return whether an earlier round settled the item; take back a charge that was withdrawn since."""
        other, end = answer.others.get(item.request_id), item.settlement
        if other is None or end is None:
            return False
        if item.request_id not in answer.doubted and end.outcome != "ledger_error":
            return False  # the caller was not told that it failed, and no answer was lost
        if other == "posted" and not end.is_posted:
            account_id = item.hold.account.id
            values = (self._node.id, self._node.epoch, account_id, item.request_id)
            report.balances_nano[account_id] = int(
                await self._session.fetch_value(_WITHDRAW, values)
            )
        return True

    def _note_failure(self, error: Exception, report: SharedReport) -> None:
        """Report an outage, or that this node is over; a new connection may lead to another server."""
        if isinstance(error, psycopg.Error) and error.sqlstate == nodes.TAKEN_OVER:
            report.ended = nodes.TakenOver(
                f"{describe(error)}: the database had not heard of it for some seconds, so another"
                " gateway has interrupted its requests. It charges nothing more and must be restarted"
            )
            return
        report.unavailable = LedgerError(describe(error))
        report.is_brief = isinstance(error, _IN_THE_WAY) or (
            isinstance(error, psycopg.Error) and error.sqlstate == nodes.BOOKS_KEPT
        )
        if not report.is_brief:
            # The old answer may still arrive on this connection, so it cannot be used again.
            self._session.close()


def _free(items: Sequence[Item], report: SharedReport) -> Sequence[Item]:
    """Leave out the items of locked accounts."""
    if not report.locked:
        return items
    return [item for item in items if item.hold.account not in report.locked]
