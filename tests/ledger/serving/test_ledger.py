"""Waits of a serving ledger, and how a long start is told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, cast

import pytest

from gateway.base.errors import LedgerUnavailable
from gateway.ledger.base import Account, Aside, AsideEnd, Key, Line
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_ledger
from gateway.ledger.records import LedgerError
from gateway.ledger.serving import ledger as ledgers
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import Memory
from gateway.ledger.serving.queue import Item, Report, RoundEnd
from gateway.ledger.serving.writer import Writer
from gateway.ledger.sqlite import schema
from gateway.ledger.versions import VERSION
from tests.ledger.contract.kit import NOW_MS, admission, settlement
from tests.ledger.kit import make_place
from tests.long.million import History, fill_previous


@dataclass
class Rounds:
    """A store, and a reader that finds nothing."""

    batches: list[int] = field(default_factory=list)
    report: type[Report] = Report
    decide: Callable[[Item], Report] | None = None
    """Reports what becomes of a step; None: it is committed."""
    log_bytes: int = 0
    read_receipt = read_spent = read_ended_key = fetch = cast("Any", None)

    def start_round(self, items: Sequence[Item], *, polls: bool, report: RoundEnd) -> None:
        self.batches.append(len(items))
        if self.decide is None or not items:
            told = self.report(polled=polls, done=list(items))
        else:
            told = self.decide(items[0])
        asyncio.get_running_loop().call_later(0.01, report, told)

    def start_aside(self, write: Aside, report: AsideEnd) -> None:
        del write
        report(None)

    def break_off(self) -> None:
        pass


@pytest.fixture
def key() -> Key:
    return Key("key_1", Account(1, "a", False, 5000), KeyTerms(), Line("key_1"))


def open_on(rounds: Rounds) -> ServingLedger:
    memory = Memory(lambda: NOW_MS)
    writer = Writer(rounds, memory, commit_seconds=5)
    return ServingLedger(rounds, memory, rounds, lambda: NOW_MS, writer)


async def test_a_request_takes_two_rounds(key: Key) -> None:
    """Waiting for a row that is on its way asks for no further round."""
    rounds = Rounds()
    ledger = open_on(rounds)
    for number in range(3):
        hold = ledger.hold(key, admission(id_=f"req_{number}"))
        await asyncio.gather(ledger.wait_admitted(hold), ledger.wait_admitted(hold))
        await ledger.settle(hold, settlement(5))
    await ledger.close()
    await ledger.wait_ended()
    assert rounds.batches[:-1] == [1, 1] * 3, "the last one ends the writer"


async def test_a_raise_is_not_stored(key: Key) -> None:
    rounds = Rounds()
    ledger = open_on(rounds)
    hold = ledger.hold(key, admission(100))
    await ledger.confirm(hold)
    ledger.raise_hold(hold, 400)
    assert (hold.amount_nano, hold.raised) == (400, False)
    await ledger.settle(hold, settlement(5))
    await ledger.close()
    assert sum(rounds.batches) == 2, "the row, the end"


async def test_a_node_that_was_taken_over_ends(key: Key) -> None:
    rounds = Rounds(decide=lambda _: Report(ended=LedgerError("taken over")))
    ledger = open_on(rounds)
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
    step = f"upgrading to version {VERSION} of the schema, for "
    assert any(line.startswith(step) for line in told)


async def test_a_short_start_tells_nothing(tmp_path: Path) -> None:
    told: list[str] = []
    async with open_ledger(make_place(tmp_path).path, tell=told.append):
        assert told == []


async def test_what_a_start_has_begun_ends_when_the_start_is_broken_off() -> None:
    """It may run on a thread, for which the process waits."""
    with suppress(asyncio.CancelledError):
        async with ledgers.reporting(print) as progress:
            progress("reading")
            raise asyncio.CancelledError
    with pytest.raises(LedgerError, match="broken off"):
        progress("reading on")
