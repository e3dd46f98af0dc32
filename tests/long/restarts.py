"""Restarts under load: the OpenAI SDK keeps calling while the gateway is restarted.

The manager owns the listening socket, so connections wait in the kernel's queue between two lives.
Every call has a number, which the provider reports as its prompt tokens (see `killing`), so the
ledger shows how often each was charged.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import httpx2
import openai

from gateway.ledger.opening import open_books
from tests.long.killing import (
    CREDIT_NANO,
    KINDS,
    MODEL,
    Findings,
    answer,
    judge_rows,
    read_rows,
    used,
)
from tests.server.manager import Service, queueing, service
from tests.support import config
from tests.support.books import Books
from tests.support.upstream import listen, port_of, serve_scripts

CALLS_PER_SECOND: Final = 50
CATCH_UP_SECONDS: Final = 0.5
"""How much of a delay is made up by calling faster."""
LIFE_SECONDS: Final = (0.3, 1.0)
"""How long a gateway serves before it is stopped."""
DRAIN_SECONDS: Final = 15
"""Enough for any call, even if caller and provider run on a busy machine."""
WATCHDOG_SECONDS: Final = 0.15
"""Gives a ping every 50 ms, each of which samples the event loop's lag."""
PING_SECONDS: Final = WATCHDOG_SECONDS / 3
POOL: Final = httpx2.Limits(max_connections=1000, max_keepalive_connections=100)
"""The SDK's own limits."""


class Witness(httpx2.AsyncHTTPTransport):
    """The SDK's transport, which counts the errors that the SDK retries."""

    def __init__(self, troubles: Counter[str]) -> None:
        super().__init__(limits=POOL)
        self._troubles = troubles

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        try:
            response = await super().handle_async_request(request)
        except httpx2.TransportError as error:
            self._troubles[type(error).__name__] += 1
            raise
        if response.status_code != 200:
            self._troubles[str(response.status_code)] += 1
        return response


@dataclass(slots=True)
class Figures(Findings):
    """The results of a run."""

    restarts: int = 0
    calls: int = 0
    complete: set[int] = field(default_factory=set)
    failed: list[str] = field(default_factory=list)
    troubles: Counter[str] = field(default_factory=Counter)
    """Errors that the SDK met and retried, by kind."""
    slowest_call_seconds: float = 0
    downs_seconds: list[float] = field(default_factory=list)
    """Times from STOPPING to the next READY."""
    lags_seconds: list[float] = field(default_factory=list)
    """The delay of each ping under steady load, which is the event loop's lag."""

    @property
    def refused(self) -> int:
        return self.troubles["ConnectError"] + self.troubles["ConnectTimeout"]

    @property
    def lag_p99_seconds(self) -> float:
        lags = sorted(self.lags_seconds)
        return lags[int(len(lags) * 0.99)] if lags else 0.0

    def check(self) -> None:
        assert not self.failed, self.failed[:10]
        assert self.ok, self.problems
        assert not self.refused, self.troubles
        assert len(self.complete) == self.calls

    def __str__(self) -> str:
        downs = sorted(self.downs_seconds)
        return (
            f"{self.restarts} restarts, {self.calls} calls: {len(self.complete)} complete,"
            f" {len(self.failed)} failed, {self.refused} refused, tried again"
            f" {self.troubles.total()} {dict(self.troubles)};"
            f" ledger wrong {len(self.lost + self.doubled + self.wrong)};"
            f" stopping to ready {downs[len(downs) // 2]:.2f} s (most {downs[-1]:.2f});"
            f" slowest call {self.slowest_call_seconds:.2f} s;"
            f" loop lag p99 {self.lag_p99_seconds * 1000:.1f} ms"
            f" of {len(self.lags_seconds)} samples"
        )


@dataclass(slots=True)
class Load:
    """Calls at a fixed pace, whether or not earlier ones have ended, up to a limit."""

    client: openai.AsyncOpenAI
    figures: Figures
    room: asyncio.Semaphore
    """Limits the calls in flight, which would pile up on a machine that is too slow."""

    async def run(self, end: asyncio.Event) -> None:
        due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while not end.is_set():
                await self.room.acquire()
                due = max(due + 1 / CALLS_PER_SECOND, time.monotonic() - CATCH_UP_SECONDS)
                self.figures.calls += 1
                calling = group.create_task(self._call(self.figures.calls))
                calling.add_done_callback(lambda _: self.room.release())
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _call(self, number: int) -> None:
        begin = time.monotonic()
        ask = self._stream if number % 2 else self._complete
        try:
            finish = await ask(f"number {number}")
        except openai.OpenAIError as error:
            self.figures.failed.append(f"number {number}: {error!r}")
            return
        seconds = time.monotonic() - begin
        self.figures.slowest_call_seconds = max(self.figures.slowest_call_seconds, seconds)
        if finish == "stop":
            self.figures.complete.add(number)
        else:
            self.figures.failed.append(f"number {number}: ended with {finish}")

    async def _complete(self, prompt: str) -> str | None:
        whole = await self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": prompt}]
        )
        return whole.choices[0].finish_reason

    async def _stream(self, prompt: str) -> str | None:
        stream = await self.client.chat.completions.create(
            model=MODEL, messages=[{"role": "user", "content": prompt}], stream=True
        )
        return [chunk.choices[0].finish_reason async for chunk in stream][-1]


async def restart(one: Service, draw: random.Random, figures: Figures) -> None:
    """Stop the gateway and start the next one."""
    await asyncio.sleep(draw.uniform(*LIFE_SECONDS))
    begin = len(one.ear.notices)
    await one.end()
    stopping = await one.ear.wait_for("STOPPING", begin)
    ready = await one.start_ready()
    figures.restarts += 1
    figures.downs_seconds.append(ready.at_seconds - stopping.at_seconds)


def judge(path: Path, figures: Figures) -> None:
    """Check that the ledger has every complete call, charged once at its exact cost, and no other.

    If the provider is too busy to reply, a try is voided, costs nothing and is repeated.
    """
    rows = read_rows(path)
    posted = {row.number for row in rows if row.state == "posted"}
    figures.lost += [f"number {one}" for one in sorted(figures.complete - posted)]
    balance_nano = Books(path).balance_nano("rich")
    judge_rows(rows, balance_nano, figures, lambda number: used(number).cost_nano, "upstream_error")
    with open_books(path) as books:
        figures.wrong += books.audit().problems


async def play_restarts(
    folder: Path, restarts: int, seed: int, *, at_once: int, steady_seconds: float = 0.0
) -> Figures:
    """Play the whole run with its own provider and database; the first phase has no restarts."""
    draw, figures = random.Random(seed), Figures()
    with listen() as listener, queueing() as listening:
        places = config.make_places({"alpha": port_of(listener)})
        async with (
            serve_scripts(listener) as upstream,
            service(
                folder,
                [listening],
                places=places,
                kinds=KINDS,
                credit_nano=CREDIT_NANO,
                drain_seconds=DRAIN_SECONDS,
                watchdog_seconds=WATCHDOG_SECONDS,
            ) as one,
            openai.AsyncOpenAI(
                base_url=one.gateway.base_url,
                api_key=one.caller.key,
                http_client=openai.DefaultAsyncHttpxClient(transport=Witness(figures.troubles)),
            ) as client,
            asyncio.TaskGroup() as group,
        ):
            upstream.always(lambda exchange: answer(exchange, draw))
            await one.start_ready()
            end = asyncio.Event()
            loading = group.create_task(Load(client, figures, asyncio.Semaphore(at_once)).run(end))
            await asyncio.sleep(steady_seconds)
            figures.lags_seconds = [gap - PING_SECONDS for gap in one.ear.gaps_seconds()]
            for _ in range(restarts):
                await restart(one, draw, figures)
                upstream.exchanges.clear()
            end.set()
            await loading
            await one.end()
    judge(one.gateway.database, figures)
    assert one.gateway.find_canaries() == []
    return figures
