"""Waits of a serving ledger, and how a long start is told."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest

from gateway.ledger.base import Account, Key, Line
from gateway.ledger.call_records import Receipt, Spent
from gateway.ledger.key_records import EndedKey, KeyTerms
from gateway.ledger.opening import open_ledger
from gateway.ledger.serving import ledger as ledgers
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import Memory
from gateway.ledger.serving.store import Item, Observations, Report
from gateway.ledger.sqlite import schema
from tests.ledger.contract.kit import NOW_MS, admission, settlement
from tests.ledger.kit import make_place
from tests.long.million import History, fill_previous

KEY = Key("key_1", Account(1, "a", False, 5000), KeyTerms(), Line("key_1"))


@dataclass
class Rounds:
    """Implements `rounds.Store`, and `ledger.Reader`, which finds nothing."""

    batches: list[int] = field(default_factory=list)
    is_shared: bool = True
    takes_back: bool = True
    log_bytes: int = 0

    def start_round(
        self,
        items: Sequence[Item],
        *,
        polls: bool,
        report: Callable[[Report | BaseException], None],
    ) -> None:
        self.batches.append(len(items))
        told = Report(polled=polls, done=list(items))
        asyncio.get_running_loop().call_later(0.01, report, told)

    def start_observing(
        self, observed: Observations, *, report: Callable[[BaseException | None], None]
    ) -> None:
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

    async def read_ended_key(self, digest: bytes) -> EndedKey | None:
        del digest
        return None


async def test_a_request_takes_two_rounds() -> None:
    """Who waits for a row that is on its way asks for no round behind it."""
    rounds, memory = Rounds(), Memory(lambda: NOW_MS)
    ledger = ServingLedger(rounds, memory, rounds, lambda: NOW_MS, 5)
    for number in range(3):
        hold = ledger.hold(KEY, admission(id_=f"req_{number}"))
        await asyncio.gather(ledger.wait_admitted(hold), ledger.wait_admitted(hold))
        await ledger.settle(hold, settlement(5))
    await ledger.close()
    await ledger.wait_ended()
    assert rounds.batches[:-1] == [1, 1] * 3, "the last one ends the writer"


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
