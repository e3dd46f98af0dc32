"""The queue: what a committed step means for those who wait for it. What is refused or late is in `contract/test_outage`."""

from __future__ import annotations

import asyncio

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.ledger.base import Account, Hold, Key, Line, Settlement
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.memory import take_hold
from gateway.ledger.serving.queue import Queue
from tests.ledger.contract.kit import admission, settlement


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
