"""A shared ledger stores holds at once, is declined, and sets locked accounts aside."""

from __future__ import annotations

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.extras.postgres.shared import (
    Locks,
    SharedLedger,
    SharedQueue,
    SharedReport,
    SharedWriter,
)
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.serving.memory import Memory
from tests.ledger.contract.kit import NOW_MS, admission, settlement, until
from tests.ledger.serving.test_ledger import Rounds
from tests.ledger.serving.test_queue import add, is_done


@pytest.fixture
def key() -> Key:
    return Key("key_1", Account(1, "a", False, 5000), KeyTerms(), Line("key_1"))


def open_on(rounds: Rounds, commit_seconds: float = 5) -> SharedLedger:
    memory = Memory(lambda: NOW_MS)
    writer = SharedWriter(rounds, memory, commit_seconds=commit_seconds)
    return SharedLedger(rounds, memory, rounds, lambda: NOW_MS, writer)


async def test_a_hold_is_full_where_the_store_says_so_and_its_raise_is_stored(key: Key) -> None:
    rounds = Rounds(
        report=SharedReport, decide=lambda item: SharedReport(done=[item], in_full=[item])
    )
    ledger = open_on(rounds)
    hold = ledger.hold(key, admission(100, full_nano=300))
    await ledger.confirm(hold)
    assert (hold.amount_nano, hold.unheld_nano, hold.admission.hold_nano) == (300, 0, 300)
    rounds.decide = None
    for amount_nano in (200, 400):
        ledger.raise_hold(hold, amount_nano)
    assert (hold.amount_nano, hold.raised) == (400, False), "a round began"
    await ledger.settle(hold, settlement(5))
    ledger.raise_hold(hold, 900)
    assert key.account.held_nano == 0
    await ledger.close()
    assert sum(rounds.batches) == 3, "the row, the raise, the end"


async def test_an_account_that_is_locked_waits_and_is_refused_in_the_end(
    key: Key, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Until its rows are free: then what waited is committed."""
    monkeypatch.setattr("gateway.extras.postgres.shared.ASIDE_SECONDS", 0.01)
    monkeypatch.setattr("gateway.extras.postgres.shared.BUSY_SECONDS", 0)
    rounds = Rounds(
        report=SharedReport, decide=lambda item: SharedReport(locked={item.hold.account})
    )
    ledger = open_on(rounds, 0.1)
    hold = ledger.hold(key, admission())
    with pytest.raises(LedgerUnavailable):
        await ledger.wait_admitted(hold)
    with pytest.raises(LedgerUnavailable):
        ledger.hold(key, admission())
    assert ledger.writable, "for all others"
    rounds.decide = lambda item: SharedReport(done=[item], freed={item.hold.account})
    await ledger.settle(hold, settlement(0, outcome="ledger_error"))
    assert [message.split(",")[0] for message in caplog.messages] == [
        "another program has locked rows of accounts",
        "no account is locked by another program any more",
    ]
    await ledger.close()


def test_accounts_that_are_locked_are_named_once(caplog: pytest.LogCaptureFixture) -> None:
    locks = Locks()
    for second in range(3):
        locks.tell(["a", "b"], second)
    for second in range(3, 6):
        locks.tell([], second)
    locked, free = caplog.messages
    assert "all others go on: a, b." in locked
    assert "no account is locked" in free


async def test_what_is_set_aside_is_in_no_batch_and_in_nobodys_way(
    key: Key, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.extras.postgres.shared.ASIDE_SECONDS", 0.01)
    woken: list[bool] = []
    queue = SharedQueue(lambda: woken.append(queue.has_aside))
    other = Account(2, "b", suspended=False, balance_nano=10**9)
    locked = [add(queue, key, since=1) for _ in range(2)]
    free = add(queue, Key("l", other, KeyTerms(), Line("l")))
    queue.set_aside({key.account})
    locked.append(add(queue, key, since=9))
    assert [item.hold for item in queue.make_batch()] == [free]
    assert (len(queue.holds), queue.has_aside) == (1, True)
    assert queue.find(locked[2].admission.request_id) is not None
    queue.expire(5)
    assert [is_done(hold.admitted) for hold in locked] == [True, True, False]
    await until(lambda: not queue.has_aside)
    assert woken[-2:] == [True, False], "a round begins once it is taken back"
    assert [item.hold for item in queue.make_batch()] == [free, *locked]
