"""Answers of the database that are lost: what became of a call is looked up, and never repeated blindly."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

import pytest

from gateway.base.errors import InsufficientBalance, LedgerUnavailable
from gateway.base.turns import spawn
from gateway.ledger.base import Hold, Key
from gateway.ledger.serving.ledger import ServingLedger
from tests.extras.postgres.cluster import Cluster, name_of
from tests.extras.postgres.severing import Cut, Line, run_line
from tests.extras.postgres.shared import Shared, admission, make_shared, settlement
from tests.support.waiting import until

CREDIT = 10**9
SHORT_SECONDS = 0.3
REQUESTS = 120
CALLERS = 12
CHANCE = 0.25
LOST = (Cut.BEFORE, Cut.DURING, Cut.AFTER)


@dataclass(slots=True)
class Scene:
    """A node whose line to the database can be cut."""

    shared: Shared
    line: Line
    ledger: ServingLedger

    @property
    def key(self) -> Key:
        return self.shared.find_key(self.ledger)

    def cut_once(self, cut: Cut, of: bytes) -> None:
        """Cut the next call that has these bytes."""

        def choose(message: bytes) -> Cut | None:
            if of not in message:
                return None
            self.line.choose = lambda _: None
            return cut

        self.line.choose = choose

    async def admit(self, *, stream: bool = False) -> Hold:
        hold = self.ledger.hold(self.key, admission(stream=stream))
        await self.ledger.confirm(hold)
        return hold

    def read_request(self, hold: Hold) -> tuple[str, str, int]:
        rows = self.shared.query(
            "SELECT state, outcome, cost_nano FROM requests WHERE id = %s",
            hold.admission.request_id,
        )
        assert len(rows) == 1
        return rows[0][0], rows[0][1], rows[0][2]

    def read_entries(self, hold: Hold) -> list[tuple[str, int]]:
        rows = self.shared.query(
            "SELECT kind, amount_nano FROM entries WHERE request_id = %s ORDER BY id",
            hold.admission.request_id,
        )
        return [(kind, amount) for kind, amount in rows]


@asynccontextmanager
async def playing(
    postgres: Cluster, shared: Shared, *, commit_seconds: float = 5
) -> AsyncIterator[Scene]:
    async with run_line(postgres.port) as (line, port):
        url = f"postgresql://gateway@127.0.0.1:{port}/{name_of(shared.url)}"
        async with shared.serve(url=url, commit_seconds=commit_seconds) as ledger:
            yield Scene(shared, line, ledger)


@pytest.fixture
def shared(postgres_url: str) -> Shared:
    return make_shared(postgres_url, credit_nano=CREDIT)


@pytest.mark.parametrize("cut", LOST)
async def test_a_full_hold_in_doubt_is_known_in_the_end(
    postgres: Cluster, shared: Shared, cut: Cut
) -> None:
    """It is full for what another node holds."""
    async with playing(postgres, shared) as scene, shared.serve() as other:
        await other.confirm(other.hold(shared.find_key(other), admission(CREDIT - 500)))
        scene.cut_once(cut, b'"started_ago_ms"')
        asked = admission(100, full_nano=400, full_below_nano=900)
        hold = scene.ledger.hold(scene.key, asked)
        assert hold.amount_nano == 100
        await scene.ledger.confirm(hold)
        assert (scene.line.cuts[cut], hold.amount_nano, scene.key.held_nano) == (1, 400, 400)
        shared.assert_sound(pending=2)


async def test_what_is_withdrawn_while_a_node_connects_is_never_charged(
    postgres: Cluster, shared: Shared
) -> None:
    async with playing(postgres, shared, commit_seconds=SHORT_SECONDS) as scene:
        hold = await scene.admit()

        def choose(message: bytes) -> Cut | None:
            if b'"ended_ago_ms"' not in message:
                return None
            scene.line.choose = lambda _: None
            scene.line.up.clear()
            return Cut.BEFORE

        scene.line.choose = choose
        with pytest.raises(LedgerUnavailable):
            await scene.ledger.settle(hold, settlement(700, withdraw_if_late=True))
        scene.line.up.set()
        await until(lambda: hold.resolved, "the void to be written")
        assert scene.read_request(hold) == ("voided", "ledger_error", 0)
        assert scene.read_entries(hold) == []


async def test_the_answer_to_a_withdrawal_may_be_lost_as_well(
    postgres: Cluster, shared: Shared
) -> None:
    """Another request, which the same round settled, is not refused for it."""
    async with playing(postgres, shared, commit_seconds=SHORT_SECONDS) as scene:
        first, other = await scene.admit(), await scene.admit()

        def choose(message: bytes) -> Cut | None:
            if b"withdraw_charge(" in message:
                scene.line.choose = lambda _: None
                return Cut.AFTER
            if b'"ended_ago_ms"' not in message or scene.line.cuts[Cut.AFTER]:
                return None
            scene.line.up.clear()
            return Cut.AFTER

        scene.line.choose = choose
        with pytest.raises(LedgerUnavailable):
            await scene.ledger.settle(first, settlement(700, withdraw_if_late=True))
        settled = scene.ledger.settle(other, settlement(5))
        scene.line.up.set()
        with suppress(LedgerUnavailable):
            await settled
        await until(lambda: first.resolved and other.resolved, "both ends to be written")
        assert scene.line.cuts[Cut.AFTER] == 2
        assert scene.read_request(first) == ("posted", "complete", 700)
        assert scene.read_entries(first) == [("charge", -700), ("correction", 700)]
        assert scene.read_entries(other) == [("charge", -5)]
        receipt = await scene.ledger.read_receipt(first.admission.request_id)
        assert receipt is not None
        assert "not delivered" in receipt.corrections[0].note
        assert scene.key.account.balance_nano == CREDIT - 5
    assert shared.read_balance() == CREDIT - 5
    shared.assert_sound()


async def test_a_call_that_arrives_late_does_nothing(postgres: Cluster, postgres_url: str) -> None:
    """The node has connected again and was told otherwise; its old call must not hold money."""
    shared = make_shared(postgres_url, credit_nano=1000)
    async with playing(postgres, shared) as scene, shared.serve() as elsewhere:
        scene.line.up.clear()
        scene.cut_once(Cut.LATE, b'"started_ago_ms"')
        hold = scene.ledger.hold(scene.key, admission())
        waiting = spawn(scene.ledger.confirm(hold), name="confirms")
        spender = elsewhere.hold(shared.find_key(elsewhere), admission())
        await elsewhere.confirm(spender)
        await elsewhere.settle(spender, settlement(1000))
        scene.line.up.set()
        with pytest.raises(InsufficientBalance):
            await waiting
        with shared.open_books() as books:
            books.entries.credit("a", 5000)
        scene.line.late.set()
        await asyncio.wait_for(scene.line.delivered.wait(), 10)
        shared.assert_sound(pending=0)
        assert shared.query("SELECT held_nano FROM accounts") == [(0,)]


@pytest.mark.parametrize("commit_seconds", [5, SHORT_SECONDS])
async def test_random_cuts_lose_and_double_nothing(
    postgres: Cluster, shared: Shared, commit_seconds: float
) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    draw = random.Random(seed)
    owed: dict[str, int] = {}
    numbers = iter(range(REQUESTS))

    async def call_on(scene: Scene) -> None:
        for number in numbers:
            stream, cost_nano = draw.random() < 0.5, draw.randrange(1, 3000)
            try:
                hold = scene.ledger.hold(scene.key, admission(stream=stream))
            except LedgerUnavailable:
                await asyncio.sleep(0.02)  # a caller's pause before its next try
                continue
            id_ = hold.admission.request_id
            owed[id_] = 0
            try:
                await scene.ledger.confirm(hold)
            except LedgerUnavailable:
                continue
            end = settlement(cost_nano if number % 7 else 0, withdraw_if_late=not stream)
            owed[id_] = end.cost_nano
            try:
                await scene.ledger.settle(hold, end)
            except LedgerUnavailable:
                if not stream:
                    owed[id_] = 0

    async with playing(postgres, shared, commit_seconds=commit_seconds) as scene:
        scene.line.choose = lambda _: draw.choice(LOST) if draw.random() < CHANCE else None
        await asyncio.gather(*(call_on(scene) for _ in range(CALLERS)))
        scene.line.choose = lambda _: None
        await until(lambda: not scene.ledger.open_holds, "all ends to be written")
    print(dict(scene.line.cuts))
    assert scene.line.cuts
    net = dict(shared.query(
        "SELECT request_id, -sum(amount_nano)::bigint FROM entries"
        " WHERE request_id IS NOT NULL GROUP BY 1"
    ))  # fmt: skip
    assert {id_: net.get(id_, 0) for id_ in owed} == owed
    assert set(net) <= set(owed)
    assert shared.read_balance() == CREDIT - sum(owed.values())
    shared.assert_sound()
