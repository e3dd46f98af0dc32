"""Whatever happens in whatever order: entries, balance, memory and holds agree to the nano-unit."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from gateway.base.errors import NoFunds
from gateway.base.times import DAY_MS
from gateway.ledger.base import Hold, Key
from gateway.ledger.budget_records import Allowance
from gateway.ledger.opening import open_books
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.serving import open_sqlite
from tests.ledger.contract.kit import NOW_MS, admission, settlement, void
from tests.ledger.kit import Place, assert_sound, find_key, make_place, query
from tests.support.fuzz import fuzz
from tests.support.memory import MEMORY

AMOUNTS = st.one_of(st.integers(0, 3000), st.integers(0, 10**15))

Step = tuple[str, int, int]
KINDS = ["hold", "hold", "hold", "settle", "settle", "void", "credit", "correct", "day", "budget"]
STEPS = st.lists(
    st.tuples(st.sampled_from(KINDS), AMOUNTS, st.integers(0, 9)), min_size=1, max_size=30
)


@dataclass
class Model:
    """The expected books, kept by the plainest arithmetic."""

    balance: int
    budget: int = 0
    now_ms: int = NOW_MS
    spent: int = 0
    spent_today: int = 0
    held: dict[Hold, int] = field(default_factory=dict)


async def play(ledger: ServingLedger, place: Place, model: Model, step: Step) -> None:
    verb, amount, choice = step
    key = find_key(ledger, place)
    if verb == "hold":
        take(ledger, key, model, amount)
    elif verb in ("settle", "void") and model.held:
        hold = list(model.held)[choice % len(model.held)]
        del model.held[hold]
        end = settlement(amount) if verb == "settle" else void()
        await ledger.settle(hold, replace(end, ended_ms=model.now_ms))
        if verb == "settle":
            model.balance -= amount
            model.spent += amount
            model.spent_today += amount
    elif verb == "day":
        model.now_ms += DAY_MS
        model.spent_today = 0
    elif verb == "budget" and amount:
        set_budget(place, model, amount)
        await ledger.refresh()
    elif verb in ("credit", "correct") and amount:
        await operate(ledger, place, model, amount if verb == "credit" else -amount)


def take(ledger: ServingLedger, key: Key, model: Model, amount: int) -> None:
    """The rule of 402, 429 and acceptance, from the model's own numbers."""
    held, rest = sum(model.held.values()), model.budget - model.spent_today
    try:
        hold = ledger.hold(key, admission(amount, started_ms=model.now_ms))
    except NoFunds as error:
        if error.lack == "balance":
            assert model.balance <= 0
        elif error.lack == "budget":
            assert model.balance > 0 >= rest
        else:
            assert min(model.balance, rest) > 0 >= min(model.balance, rest) - held
    else:
        assert min(model.balance, rest) - held > 0
        model.held[hold] = amount


def set_budget(place: Place, model: Model, amount: int) -> None:
    """Give the key a budget for each day of the model's clock, or change it."""
    with SqliteBooks(place.path, clock=lambda: model.now_ms) as books:
        books.keys.edit(place.key_id, {}, own=Allowance(amount, "day"))
    model.budget = amount


async def operate(ledger: ServingLedger, place: Place, model: Model, amount: int) -> None:
    """Change it on another connection, like the CLI; the server looks before the next step."""
    with open_books(place.path) as books:
        if amount > 0:
            books.entries.credit("a", amount)
        else:
            books.entries.correct("a", amount, note="n")
    model.balance += amount
    await ledger.refresh()


def check(ledger: ServingLedger, place: Place, model: Model) -> None:
    key = find_key(ledger, place)
    assert key.account.balance_nano == model.balance
    assert key.budget is not None
    held = (key.account.held_nano, key.held_nano, key.budget.held_nano)
    assert held == (sum(model.held.values()),) * 3
    spent = (key.spent_nano, key.budget.find_spent_nano(model.now_ms))
    assert spent == (model.spent, model.spent_today)
    assert query(
        place.path,
        "SELECT balance_nano, (SELECT sum(amount_nano) FROM entries),"
        " spent_nano + (SELECT coalesce(sum(cost_nano), 0) FROM unfolded) FROM accounts, keys",
    ) == [(model.balance, model.balance, model.spent)]


async def run_steps(steps: Sequence[Step]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        place = make_place(Path(folder), credit_nano=5000)
        model = Model(5000)
        set_budget(place, model, 2000)
        async with open_sqlite(place.path, clock=lambda: model.now_ms) as ledger:
            for step in steps:
                async with asyncio.timeout(60):
                    await play(ledger, place, model, step)
                check(ledger, place, model)
        assert_sound(place.path)


@fuzz(15)
@given(steps=STEPS)
def test_memory_entries_and_balance_agree_after_every_step(steps: list[Step]) -> None:
    asyncio.run(run_steps(steps))
