"""A gateway whose file changes while it serves: its versions, and calls during its reloads.

Each version has a price of its own, so that a charge tells by which one it was made.
"""

from __future__ import annotations

import asyncio
import json
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gateway.extras.reloads import asking
from gateway.ledger.opening import find_server, open_books
from tests.support import replies, seed
from tests.support.books import Books
from tests.support.chat import say
from tests.support.client import Call, request
from tests.support.process import CHAT, GatewayProcess, free_port
from tests.support.seed import NANO, Caller, Seed
from tests.support.upstream import Drip, Exchange, Script, listen, port_of, serve_scripts

MODEL: Final = "reloaded"
PROMPT, COMPLETION = 1000, 100
"""Tokens that the provider reports for each request."""
PIECES: Final = 6
REPLY_SECONDS: Final = (0.0, 0.25)
"""How long the provider takes: some replies outlast several reloads."""
PAUSE_SECONDS: Final = 0.03


@dataclass(frozen=True, slots=True)
class Version:
    """The content of the file at a time."""

    number: int = 0
    """In the price, and in the provider's key unless `key` says another."""
    provider: str = "vendor"
    port: int = 0
    """The port of the provider."""
    tables: str = ""
    """More tables, or what breaks the file."""
    server: str = ""
    limits: str = "requests_per_minute = 0"
    currency: str = "USD"
    key: int | None = None

    @property
    def cost_nano(self) -> int:
        """The charge of one request: nano-units for a thousandth of a million tokens."""
        return PROMPT * (1000 + self.number) + COMPLETION * 2000

    @property
    def secret(self) -> str:
        return f"upstream-secret-{self.number if self.key is None else self.key:08}"

    def write(self, gateway: GatewayProcess, *, port: int | None = None) -> None:
        price = f"{{ input = {1 + self.number / 1000:.3f}, output = 2 }}"
        (gateway.folder / "vendor.key").write_text(self.secret)
        gateway.config.write_text(
            f'[server]\nhost = "127.0.0.1"\nport = {port or gateway.port}\ndrain_seconds = 2\n{self.server}\n'
            f'[billing]\ncurrency = "{self.currency}"\n'
            f"[limits]\naccount_in_flight = 0\nconcurrency = 0\n{self.limits}\n"
            f'[providers.{self.provider}]\ndialect = "chat"\napi_key = "file:vendor.key"\n'
            f'base_url = "http://127.0.0.1:{self.port}/v1"\n'
            f'[models.{MODEL}]\nroutes = ["{self.provider}/up"]\nprice = {price}\n{self.tables}\n'
        )


@dataclass(frozen=True, slots=True)
class Reloaded:
    """A gateway, its caller, and what it serves by."""

    gateway: GatewayProcess
    caller: Caller

    @property
    def books(self) -> Books:
        return Books(self.gateway.database)

    async def reload(self, version: Version) -> asking.Answer:
        """Write the version and ask the gateway to read it."""
        version.write(self.gateway)
        return await asyncio.to_thread(self.ask)

    def ask(self) -> asking.Answer:
        pid = find_server(self.gateway.database)
        assert self.gateway.process is not None
        assert pid == self.gateway.process.pid
        with open_books(self.gateway.database) as books:
            answer = asking.ask(books, pid)
        assert answer is not None, self.gateway.log[-2000:]
        return answer

    def stop(self) -> None:
        """Stop the gateway; no file but its configuration and the provider's key may have a secret."""
        (self.gateway.folder / "vendor.key").unlink()
        self.gateway.stop()

    def write_call(self, *, stream: bool) -> bytes:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {self.caller.key}"}
        body = json.dumps(say(MODEL, stream=stream)).encode()
        return request("POST", CHAT, headers, body)


def start(folder: Path, version: Version) -> Reloaded:
    gateway = GatewayProcess(folder, free_port())
    version.write(gateway)
    caller = seed.seed(gateway.database, (Seed("rich", 10**6 * NANO),))["rich"]
    gateway.canaries += [caller.key.encode(), b"upstream-secret-"]
    gateway.start()
    return Reloaded(gateway, caller)


def answer(exchange: Exchange, draw: random.Random) -> Script:
    """Reply late, and a stream in pieces."""
    reported = replies.usage(PROMPT, COMPLETION)
    seconds = draw.uniform(*REPLY_SECONDS) / PIECES
    if not exchange.json.get("stream"):
        whole = replies.json_reply(replies.completion("Hello!", usage=reported))
        return [Drip((b"",) * PIECES, seconds), *whole]
    pieces = replies.sse_reply(replies.stream_chunks(["word "] * PIECES, reported))
    return [Drip([one for one in pieces if isinstance(one, bytes)], seconds)]


@dataclass(slots=True)
class Figures:
    """The results of a run: `failed` and `wrong` must be empty."""

    reloads: int = 0
    calls: int = 0
    across: int = 0
    """Calls during which the file was read again."""
    slowest_reload_seconds: float = 0.0
    failed: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def check(self) -> None:
        assert not self.failed, self.failed[:10]
        assert not self.wrong, self.wrong[:10]
        assert self.across

    def __str__(self) -> str:
        return (
            f"{self.reloads} reloads (slowest {self.slowest_reload_seconds * 1000:.0f} ms), {self.calls}"
            f" calls, {self.across} of them across a reload; failed {len(self.failed)}, wrong"
            f" {len(self.wrong)}"
        )


@dataclass(slots=True)
class Load:
    """Calls on connections that stay open, each checked against the versions of its time."""

    one: Reloaded
    figures: Figures
    taken: int = 0
    """The version that the gateway said it serves by."""
    written: int = 0
    """The version in the file, which it may serve by already."""
    over: bool = False

    async def call_on(self, number: int) -> None:
        async with self.one.gateway.connect() as call:
            while not self.over:
                number += 1
                await self._call(call, stream=bool(number % 2))

    async def _call(self, call: Call, *, stream: bool) -> None:
        oldest = self.taken
        await call.send(self.one.write_call(stream=stream))
        await call.read_head()
        reply = await call.read_all()
        self.figures.calls += 1
        self.figures.across += self.taken > oldest
        is_whole = reply.complete and (not stream or reply.body.endswith(replies.DONE))
        if reply.status != 200 or not is_whole:
            self.figures.failed.append(f"{reply.status} {reply.body[-300:]!r}")
            return
        cost_nano = (await self.one.books.settled(reply.request_id)).cost_nano
        known = {Version(one).cost_nano for one in range(oldest, self.written + 1)}
        if cost_nano not in known:
            self.figures.wrong.append(f"{cost_nano} is a price of another time than {known}")


async def play_reloads(folder: Path, reloads: int, connections: int, seed: int) -> Figures:
    """Call on all connections while prices, the provider and its key change again and again."""
    draw, figures = random.Random(seed), Figures()
    with listen() as listener:
        async with serve_scripts(listener) as upstream:
            upstream.always(lambda exchange: answer(exchange, draw))
            one = start(folder, Version(port=port_of(listener)))
            load = Load(one, figures)
            async with asyncio.TaskGroup() as group:
                for number in range(connections):
                    group.create_task(load.call_on(number))
                for number in range(1, reloads + 1):
                    await asyncio.sleep(PAUSE_SECONDS)
                    load.written = number
                    version = Version(number, f"vendor{number // 2 % 2}", port_of(listener))
                    begin = time.monotonic()
                    said = await one.reload(version)
                    seconds = time.monotonic() - begin
                    figures.slowest_reload_seconds = max(figures.slowest_reload_seconds, seconds)
                    assert said.ok, said
                    load.taken = number
                    figures.reloads += 1
                load.over = True
            secrets = {Version(number).secret for number in range(reloads + 1)}
            used = {
                one.headers["authorization"].removeprefix("Bearer ") for one in upstream.exchanges
            }
            figures.wrong += [f"an unknown key was used: {one}" for one in used - secrets]
            with open_books(one.gateway.database) as books:
                figures.wrong += books.audit().problems
            one.stop()
    return figures
