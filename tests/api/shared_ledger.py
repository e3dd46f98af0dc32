"""A gateway whose ledger decides twice, as one that several gateways share does."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from unittest import mock

from gateway.api.front import Call as ServedCall
from gateway.api.front import find_code
from gateway.api.state import Gateway
from gateway.base.errors import GatewayError
from gateway.ledger.base import Admission, Hold, Key, Settlement
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import Limits
from gateway.ledger.serving.ledger import ServingLedger
from gateway.ledger.serving.memory import drop_hold, take_hold
from tests.api.in_flight import Scene, open_inside
from tests.support import client
from tests.support.client import Call, Reply, request
from tests.support.config import Places
from tests.support.seed import Seed
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until

RATE: Final = Limits(requests_per_minute=1000, tokens_per_minute=10**6, concurrency=50)
TEAM: Final = Seed(
    "team",
    requests_per_minute=RATE.requests_per_minute,
    tokens_per_minute=RATE.tokens_per_minute,
    concurrency=RATE.concurrency,
    budget=Allowance(10**12, "month"),
)
Refuse = Callable[[Key], Exception]
"""Makes a refusal for a key."""


class SharedLedger(ServingLedger):
    """Refuses when it is told to; a hold is recorded only when it is confirmed."""

    def __init__(self, *parts: Any, **others: Any) -> None:
        super().__init__(*parts, **others)
        self.refuse_hold: Refuse | None = None
        self.refuse_confirm: Refuse | None = None
        self.go_on = asyncio.Event()
        self.go_on.set()
        self.confirming: list[Hold] = []
        self.settled: list[Settlement] = []
        self.refused: list[tuple[str, str]] = []

    def hold(self, key: Key, admission: Admission) -> Hold:
        if self.refuse_hold is not None:
            raise self.refuse_hold(key)
        return take_hold(key, admission)

    async def confirm(self, hold: Hold) -> None:
        self.confirming.append(hold)
        await self.go_on.wait()
        if self.refuse_confirm is not None:
            refusal = self.refuse_confirm(hold.key)
            if isinstance(refusal, GatewayError):
                drop_hold(hold)
            raise refusal
        self._queue.open_holds += 1
        self._queue.linger(hold)

    def settle(self, hold: Hold, settlement: Settlement) -> asyncio.Future[None]:
        self.settled.append(settlement)
        return super().settle(hold, settlement)


@dataclass(slots=True)
class Shared:
    """A gateway on such a ledger, and the calls that it logged."""

    scene: Scene
    ledger: SharedLedger
    gateway: Gateway
    calls: list[tuple[ServedCall, int]] = field(default_factory=list)

    @property
    def key(self) -> Key:
        key = self.calls[0][0].key
        assert key is not None
        return key

    async def send(self, call: Call, path: str, body: object) -> None:
        headers = {"Content-Type": "application/json", "x-api-key": self.scene.key}
        await call.send(request("POST", path, headers, json.dumps(body).encode()))

    async def ask(self, path: str, body: object) -> Reply:
        async with client.connect(self.scene.port) as call:
            await self.send(call, path, body)
            return await call.read_all()

    @asynccontextmanager
    async def ask_slowly(self, path: str, body: object) -> AsyncIterator[Call]:
        """Ask; the ledger decides once it may go on."""
        self.ledger.go_on.clear()
        async with client.connect(self.scene.port) as call:
            await self.send(call, path, body)
            await until(lambda: self.ledger.confirming, "the question")
            yield call

    def check_nothing_left(self) -> None:
        """Check that nothing is held or counted, in the money and in the rates."""
        key = self.key
        assert (key.held_nano, key.account.held_nano) == (0, 0)
        assert key.budget is not None
        assert key.budget.held_nano == 0
        rates = self.gateway.rates.find(key, self.gateway.config, time.monotonic())
        assert rates.tokens is not None
        assert not rates.tokens.wait_seconds(RATE.tokens_per_minute, time.monotonic())
        assert rates.in_flight == 0


@asynccontextmanager
async def open_shared(
    folder: Path, places: Places, alpha: ScriptedUpstream
) -> AsyncIterator[Shared]:
    with mock.patch("gateway.ledger.sqlite.serving.ServingLedger", SharedLedger):
        async with open_inside(folder, places, alpha, seeds=(TEAM,)) as scene:
            assert isinstance(scene.ledger, SharedLedger)
            assert scene.gateway is not None
            shared = Shared(scene, scene.ledger, scene.gateway)
            scene.gateway.listeners = [lambda call, status: shared.calls.append((call, status))]
            scene.gateway.refusal_listeners = [
                lambda call, error: shared.ledger.refused.append((find_code(error), call.model))
            ]
            yield shared
