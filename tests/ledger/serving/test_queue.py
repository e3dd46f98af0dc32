"""The queue: what a committed, refused or late step means for those who wait for it."""

from __future__ import annotations

import asyncio
import sqlite3

import pytest

from gateway.base.errors import InternalError, LedgerUnavailable
from gateway.ledger.base import Account, Hold, Key, Line, Settlement
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.memory import take_hold
from gateway.ledger.serving.queue import Queue
from tests.ledger.contract.kit import admission, settlement, void
from tests.support.rows import each_row

MAX_ITEMS = 512


@pytest.fixture
def key() -> Key:
    return Key("k", Account(1, "a", suspended=False, balance_nano=10**9), KeyTerms(), Line("k"))


def add(queue: Queue, key: Key, end: Settlement | None = None, *, since: float = 0) -> Hold:
    """Queue a hold for whose row, and end if it has one, somebody waits."""
    hold = take_hold(key, admission(10))
    wait(hold, end, since=since)
    queue.add(hold)
    return hold


def wait(hold: Hold, end: Settlement | None, *, since: float = 0) -> None:
    hold.admitted = hold.admitted or asyncio.get_running_loop().create_future()
    hold.settlement = end
    hold.settled = None if end is None else asyncio.get_running_loop().create_future()
    hold.waiting_since_seconds = since


def is_done(wait: asyncio.Future[None] | None) -> bool:
    assert wait is not None
    return wait.done()


async def test_a_hold_stays_queued_until_its_end_is_committed(key: Key) -> None:
    queue = Queue(lambda: None)
    hold = add(queue, key)
    (row,) = queue.make_batch()
    assert (row.insert, row.settlement) == (True, None)
    wait(hold, settlement(5))  # while its row is under way
    queue.finish(row)
    assert (is_done(hold.admitted), is_done(hold.settled), hold.resolved) == (True, False, False)
    assert queue.find(hold.admission.request_id) is hold
    (end,) = queue.make_batch()
    assert (end.insert, end.settlement) == (False, hold.settlement)
    queue.finish(end)
    assert (is_done(hold.settled), hold.resolved, key.account.held_nano) == (True, True, 0)
    assert (len(queue.holds), queue.find(hold.admission.request_id)) == (0, None)


async def test_an_admission_that_is_committed_leaves_the_queue(key: Key) -> None:
    queue = Queue(lambda: None)
    add(queue, key)
    queue.finish(*queue.make_batch())
    assert (len(queue.holds), key.account.held_nano) == (0, 10)


async def test_a_batch_has_the_oldest_in_order_and_no_more_than_its_size(key: Key) -> None:
    queue = Queue(lambda: None)
    holds = [add(queue, key) for _ in range(MAX_ITEMS + 1)]
    assert [item.hold for item in queue.make_batch()] == holds[:MAX_ITEMS]


async def test_what_is_refused_holds_nothing_and_tells_all_who_wait(key: Key) -> None:
    queue = Queue(lambda: None)
    hold = add(queue, key)
    (item,) = queue.make_batch()
    queue.refuse(item, sqlite3.IntegrityError("no"))
    assert (len(queue.holds), hold.resolved, key.account.held_nano) == (0, True, 0)
    for future in (hold.admitted, hold.settled):
        assert future is not None
        with pytest.raises(InternalError):
            future.result()


async def test_what_lingers_is_committed_once(key: Key) -> None:
    """Somebody waits for the row or the end of one meanwhile, so it is added before."""
    queue = Queue(lambda: None)
    admitted, ended = take_hold(key, admission(10)), take_hold(key, admission(10))
    for hold in (admitted, ended):
        queue.linger(hold)
    wait(admitted, None)
    wait(ended, settlement(5))
    ended.admitted = None
    for hold in (admitted, ended):
        queue.add(hold)
        queue.finish(queue.make_batch()[0])
    queue.ripen_all()
    assert len(queue.holds) == 0


@each_row(
    ("end", "outcome", "cost_nano"),
    [
        (settlement(5, withdraw_if_late=True), "ledger_error", 0),
        (settlement(5, withdraw_if_late=False), "complete", 5),
        (void(), "upstream_error", 0),
    ],
)
async def test_a_late_charge_is_withdrawn_if_its_caller_said_so(
    key: Key, end: Settlement, outcome: str, cost_nano: int
) -> None:
    queue = Queue(lambda: None)
    late, early = add(queue, key, end, since=4), add(queue, key, end, since=5)
    spared = add(queue, key, end, since=4)
    queue.expire(4, but={spared})
    assert [is_done(hold.settled) for hold in (late, early, spared)] == [True, False, False]
    assert late.settled is not None
    assert isinstance(late.settled.exception(), LedgerUnavailable)
    assert late.settlement is not None
    assert (late.settlement.outcome, late.settlement.cost_nano) == (outcome, cost_nano)
    assert early.settlement is spared.settlement is end
    assert len(queue.holds) == 3, "its end is committed once that is possible"


async def test_everybody_is_told_when_the_ledger_closes(
    key: Key, caplog: pytest.LogCaptureFixture
) -> None:
    queue = Queue(lambda: None)
    hold, lingering = add(queue, key, settlement(5)), take_hold(key, admission(10))
    queue.linger(lingering)
    queue.fail_all()
    assert hold.admitted is not None
    assert isinstance(hold.admitted.exception(), LedgerUnavailable)
    assert is_done(hold.settled)
    for one in (hold, lingering):
        assert f"request {one.admission.request_id}: the ledger closed before it" in caplog.text


async def test_a_charge_that_was_withdrawn_while_it_was_committed_is_not_over(key: Key) -> None:
    """Its void is queued, which takes it back."""
    queue = Queue(lambda: None)
    hold = add(queue, key, settlement(5, withdraw_if_late=True), since=1)
    (item,) = queue.make_batch()
    queue.expire(5)
    queue.finish(item)
    assert (hold.resolved, len(queue.holds)) == (False, 1)
    (void_,) = queue.make_batch()
    assert void_.settlement is not None
    assert not void_.settlement.is_posted
    queue.finish(void_)
    assert (hold.resolved, len(queue.holds)) == (True, 0)
