"""Waits of a serving ledger, alone and shared, and how a long start is told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from gateway.errors import BalanceHeld, LedgerUnavailable
from gateway.ledger.alert_records import RefusedView
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.call_records import Receipt, Spent
from gateway.ledger.key_records import EndedKey, KeyTerms
from gateway.ledger.opening import open_ledger
from gateway.ledger.records import LedgerError
from gateway.ledger.serving import ledger as ledgers
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import Memory
from gateway.ledger.serving.queue import Item, Observations, ObservingEnd, Report, RoundEnd
from gateway.ledger.sqlite import schema
from tests.ledger.contract.kit import NOW_MS, admission, settlement
from tests.ledger.kit import make_place
from tests.long.million import History, fill_previous


@dataclass
class Rounds:
    """A store, and a reader that finds nothing."""

    batches: list[int] = field(default_factory=list)
    decide: Callable[[Item], Report] | None = None
    """Reports what becomes of a step; None: it is committed."""
    is_shared: bool = True
    takes_back: bool = True
    log_bytes: int = 0

    def start_round(self, items: Sequence[Item], *, polls: bool, report: RoundEnd) -> None:
        self.batches.append(len(items))
        if self.decide is None or not items:
            told = Report(polled=polls, done=list(items))
        else:
            told = self.decide(items[0])
        asyncio.get_running_loop().call_later(0.01, report, told)

    def start_observing(self, observed: Observations, *, report: ObservingEnd) -> None:
        del observed
        report(None)

    def break_off(self) -> None:
        pass

    async def read_receipt(self, request_id: str) -> Receipt | None:
        del request_id
        return None

    async def read_spent(self, key: Key, today: int) -> Spent:
        del key, today
        raise NotImplementedError

    async def read_refused(self, request_id: str, key_id: str) -> RefusedView | None:
        del request_id, key_id
        raise NotImplementedError

    async def read_ended_key(self, digest: bytes) -> EndedKey | None:
        del digest
        return None


@pytest.fixture
def key() -> Key:
    return Key("key_1", Account(1, "a", False, 5000), KeyTerms(), Line("key_1"))


async def test_a_request_takes_two_rounds(key: Key) -> None:
    """Waiting for a row that is on its way asks for no further round."""
    rounds, memory = Rounds(), Memory(lambda: NOW_MS)
    ledger = ServingLedger(rounds, memory, rounds, lambda: NOW_MS, 5)
    for number in range(3):
        hold = ledger.hold(key, admission(id_=f"req_{number}"))
        await asyncio.gather(ledger.wait_admitted(hold), ledger.wait_admitted(hold))
        await ledger.settle(hold, settlement(5))
    await ledger.close()
    await ledger.wait_ended()
    assert rounds.batches[:-1] == [1, 1] * 3, "the last one ends the writer"


async def test_what_others_have_spent_is_declined_and_holds_nothing(key: Key) -> None:
    """Whoever settles it all the same, as its caller left, waits for nothing."""
    rounds = Rounds(decide=lambda item: Report(declined=[(item, BalanceHeld("others"))]))
    ledger = ServingLedger(rounds, Memory(lambda: NOW_MS), rounds, lambda: NOW_MS, 5)
    hold = ledger.hold(key, admission())
    with pytest.raises(BalanceHeld, match="others"):
        await ledger.confirm(hold)
    assert (hold.resolved, key.account.held_nano, ledger.open_holds) == (True, 0, 0)
    await ledger.settle(hold, settlement(0, outcome="caller_left"))
    with pytest.raises(BalanceHeld):
        await ledger.wait_admitted(hold)
    await ledger.close()


async def test_a_hold_is_full_where_the_store_says_so_and_its_raise_is_stored(key: Key) -> None:
    rounds = Rounds(decide=lambda item: Report(done=[item], in_full=[item]))
    ledger = ServingLedger(rounds, Memory(lambda: NOW_MS), rounds, lambda: NOW_MS, 5)
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


async def test_a_raise_is_stored_only_where_others_serve_too(key: Key) -> None:
    rounds = Rounds(is_shared=False)
    ledger = ServingLedger(rounds, Memory(lambda: NOW_MS), rounds, lambda: NOW_MS, 5)
    hold = ledger.hold(key, admission(100))
    await ledger.confirm(hold)
    ledger.raise_hold(hold, 400)
    assert (hold.amount_nano, hold.raised) == (400, False)
    await ledger.settle(hold, settlement(5))
    await ledger.close()
    assert sum(rounds.batches) == 2, "the row, the end"


async def test_an_account_that_is_locked_waits_and_is_refused_in_the_end(
    key: Key, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Until its rows are free: then what waited is committed."""
    monkeypatch.setattr("gateway.ledger.serving.queue.ASIDE_SECONDS", 0.01)
    monkeypatch.setattr("gateway.ledger.serving.writer.BUSY_SECONDS", 0)
    rounds = Rounds(decide=lambda item: Report(locked={item.hold.account}))
    ledger = ServingLedger(rounds, Memory(lambda: NOW_MS), rounds, lambda: NOW_MS, 0.1)
    hold = ledger.hold(key, admission())
    with pytest.raises(LedgerUnavailable):
        await ledger.wait_admitted(hold)
    with pytest.raises(LedgerUnavailable):
        ledger.hold(key, admission())
    assert ledger.writable, "for all others"
    rounds.decide = lambda item: Report(done=[item], freed={item.hold.account})
    await ledger.settle(hold, settlement(0, outcome="ledger_error"))
    assert [message.split(",")[0] for message in caplog.messages] == [
        "another program has locked rows of accounts",
        "no account is locked by another program any more",
    ]
    await ledger.close()


async def test_a_node_that_was_taken_over_ends(key: Key) -> None:
    rounds = Rounds(decide=lambda _: Report(ended=LedgerError("taken over")))
    ledger = ServingLedger(rounds, Memory(lambda: NOW_MS), rounds, lambda: NOW_MS, 5)
    hold = ledger.hold(key, admission())
    with pytest.raises(LedgerUnavailable):
        await ledger.wait_admitted(hold)
    with pytest.raises(LedgerError, match="taken over"):
        await ledger.wait_ended()
    assert not ledger.writable


SMALL: Final = History(requests=60, days=3, models=3, keys=4, models_per_key=2)


async def test_a_long_start_tells_its_steps(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step is held up by another program's lock until it was told."""
    monkeypatch.setattr(ledgers, "TELL_SECONDS", 0.001)
    monkeypatch.setattr(schema, "BUSY_MS", 60_000)
    path = tmp_path / "gateway.db"
    fill_previous(path, SMALL)
    told: list[str] = []
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")

        def tell(text: str) -> None:
            told.append(text)
            if "upgrading" in text and other.in_transaction:
                other.execute("ROLLBACK")

        async with open_ledger(path, tell=tell):
            assert "progress" not in {task.get_name() for task in asyncio.all_tasks()}
    step = f"upgrading to version {schema.VERSION} of the schema, for "
    assert any(line.startswith(step) for line in told)


async def test_a_short_start_tells_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    async with open_ledger(make_place(tmp_path).path, tell=told.append):
        assert told == []
