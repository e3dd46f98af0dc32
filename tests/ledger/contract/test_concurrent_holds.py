"""Many tasks spend one account at once: whatever the order, it is never overdrawn beyond the bound.

The bound: a request is admitted while anything is available, so the last one in may hold more than
there is; and a charge may exceed its hold. Nothing else is ever spent that is not there. Where holds are full,
the bound is in `tests/api/test_overspend.py`, and for both databases in `played/holds.txt`.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from gateway.base.errors import NoFunds
from gateway.ledger.base import Hold, Key
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.sql.books import Books
from tests.ledger.contract.implementations import Implementation, find_implementations, make_cases
from tests.ledger.contract.kit import WAIT_SECONDS, Place, admission, settlement, void
from tests.support.fuzz import fuzz
from tests.support.memory import MEMORY

CREDIT: Final = 1000


@dataclass(frozen=True)
class Step:
    """One request, or a credit where nothing is held."""

    hold_nano: int | None
    raised_nano: int
    """The hold is raised to this before the end."""
    cost_nano: int | None
    """None voids the request."""
    credit_nano: int
    pauses: tuple[int, int, int]
    """How often others get their turn before each part."""


@dataclass
class Model:
    """The money that may be spent and that was, by the plainest arithmetic."""

    ledger: ServingLedger
    books: Books
    key: Key
    balance_nano: int = CREDIT
    beyond_nano: int = 0
    """The use beyond the holds that were admitted."""
    largest_nano: int = 0
    admitted: list[Hold] = field(default_factory=list)

    def check(self) -> None:
        account = self.key.account
        in_flight = [one.amount_nano for one in self.admitted if not one.resolved]
        assert account.held_nano == self.key.held_nano == sum(in_flight) >= 0
        assert account.available_nano >= -(self.largest_nano + self.beyond_nano), "overdrawn"

    def check_entries(self) -> None:
        """Check that the stored entries sum up to the stored balance."""
        self.check()
        with self.books.snapshot():
            entries = self.books.entries.read_latest("a", 10_000)
            stored_nano = self.books.accounts.read("a").balance_nano
        assert sum(entry.amount_nano for entry in entries) == stored_nano

    def note_use(self, hold: Hold, used_nano: int) -> None:
        self.beyond_nano += max(used_nano - hold.amount_nano, 0)


async def request(model: Model, step: Step) -> None:
    assert step.hold_nano is not None
    try:
        hold = model.ledger.hold(model.key, admission(step.hold_nano))
    except NoFunds:
        model.check()
        return
    model.largest_nano = max(model.largest_nano, step.hold_nano)
    model.admitted.append(hold)
    model.check()
    await pause(step.pauses[1])
    model.note_use(hold, step.raised_nano)
    model.ledger.raise_hold(hold, step.raised_nano)
    model.check()
    await pause(step.pauses[2])
    await end(model, hold, step.cost_nano)


async def end(model: Model, hold: Hold, cost_nano: int | None) -> None:
    if cost_nano is not None:
        model.note_use(hold, cost_nano)
        model.balance_nano -= cost_nano
    await model.ledger.settle(hold, void() if cost_nano is None else settlement(cost_nano))
    model.check_entries()


async def run(model: Model, steps: Sequence[Step]) -> None:
    for step in steps:
        await pause(step.pauses[0])
        if step.hold_nano is not None:
            await request(model, step)
        else:
            model.balance_nano += step.credit_nano
            model.books.entries.post("a", "credit", step.credit_nano, note="")
            await model.ledger.refresh()
            model.check_entries()


async def pause(turns: int) -> None:
    for _ in range(turns):
        await asyncio.sleep(0)


async def race(
    ledger: ServingLedger, books: Books, key: Key, tasks: Sequence[Sequence[Step]]
) -> None:
    model = Model(ledger, books, key)
    async with asyncio.TaskGroup() as group:
        for steps in tasks:
            group.create_task(run(model, steps))
    account = key.account
    assert (account.held_nano, key.held_nano) == (0, 0)
    assert account.balance_nano == model.balance_nano
    assert books.audit().problems == ()


async def race_in(place: Place, tasks: Sequence[Sequence[Step]]) -> None:
    async with place.serve_key(credit_nano=CREDIT) as (ledger, key), asyncio.timeout(WAIT_SECONDS):
        with place.open_books() as books:
            await race(ledger, books, key, tasks)


HOLDS = st.integers(100, 700)
USES = st.integers(0, 100)
PAUSES = st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3))
RAISED = st.one_of(st.just(0), st.just(0), st.integers(0, 900))
COSTS = st.one_of(st.none(), USES, USES, st.integers(0, 900))
REQUESTS = st.builds(Step, HOLDS, RAISED, COSTS, st.just(0), PAUSES)
CREDITS = st.builds(Step, st.none(), st.just(0), st.none(), st.integers(1, 500), PAUSES)
TASKS = st.lists(
    st.lists(st.one_of(REQUESTS, REQUESTS, REQUESTS, CREDITS), min_size=1, max_size=3),
    min_size=8,
    max_size=16,
)


@pytest.mark.parametrize("implementation", make_cases(find_implementations()))
@settings(fuzz(20), phases=[Phase.generate])
@given(tasks=TASKS)
def test_no_order_of_tasks_overdraws_the_account(
    implementation: Implementation, request: pytest.FixtureRequest, tasks: list[list[Step]]
) -> None:
    """Entries sum to the balance after each end and credit; nothing is held in the end."""
    with (
        tempfile.TemporaryDirectory(dir=MEMORY) as folder,
        implementation.lend(request, Path(folder)) as location,
    ):
        asyncio.run(race_in(Place(implementation, location), tasks))
