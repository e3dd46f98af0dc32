"""Backups under load: callers at a steady rate, in turns with and without a copy being made."""

from __future__ import annotations

import asyncio
import random
import sys
import time
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import aiohttp

from gateway.admin import keys
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.opening import open_books
from tests.long.million import ACCOUNT, History, fill
from tests.support.process import GatewayProcess, free_port
from tests.support.served import CONFIG, MODEL

RATE: Final = 200
"""Requests per second, whether or not earlier ones have ended."""
TURN_SECONDS: Final = 10.0
SAMPLE_SECONDS: Final = 0.02


@dataclass(slots=True)
class Figures:
    """Seconds from a request's due time to its last byte, with and without a copy being made."""

    plain: list[float] = field(default_factory=list)
    copying: list[float] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    copies: int = 0
    wal_bytes: int = 0
    """The largest size of the write-ahead log."""

    def __str__(self) -> str:
        return (
            f"{len(self.plain) + len(self.copying)} requests, {len(self.failed)} failed,"
            f" {self.copies} backups, each audited; p50 {_ms(self.plain, 0.5)} ms,"
            f" {_ms(self.copying, 0.5)} while copying; p99 {_ms(self.plain, 0.99)} ms,"
            f" {_ms(self.copying, 0.99)} while copying;"
            f" write-ahead log at most {self.wal_bytes / 2**20:.1f} MiB"
        )


async def play_backups(folder: Path, turns: int, seed: int, requests: int) -> Figures:
    """Play `turns` of ten seconds each way, on a database with that many requests."""
    figures = Figures()
    key = _prepare(folder, requests)
    gateway = GatewayProcess(folder, _read_port(folder))
    gateway.start()
    timeout = aiohttp.ClientTimeout(total=60)
    try:
        async with aiohttp.ClientSession(timeout=timeout) as client:
            caller = _Caller(client, gateway, key, random.Random(seed), figures)
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(_watch_wal(folder, figures))
                for _ in range(turns):
                    await caller.call_for(TURN_SECONDS, figures.plain)
                    await _call_and_copy(caller, folder, figures)
                watching.cancel()
        gateway.stop()
    finally:
        gateway.kill()
    _prove(folder / "gateway.db")
    return figures


@dataclass(frozen=True, slots=True)
class _Caller:
    client: aiohttp.ClientSession
    gateway: GatewayProcess
    key: str = field(repr=False)
    chance: random.Random
    figures: Figures

    async def call_for(self, seconds: float, into: list[float]) -> None:
        end = time.monotonic() + seconds
        due = time.monotonic()
        async with asyncio.TaskGroup() as group:
            while due < end:
                group.create_task(self._call(due, into))
                due += self.chance.expovariate(RATE)
                await asyncio.sleep(max(0.0, due - time.monotonic()))

    async def _call(self, due: float, into: list[float]) -> None:
        body = {"model": MODEL, "messages": [{"role": "user", "content": "one more"}]}
        headers = {"Authorization": f"Bearer {self.key}"}
        url = f"{self.gateway.base_url}/chat/completions"
        async with self.client.post(url, json=body, headers=headers) as response:
            text = await response.read()
        into.append(time.monotonic() - due)
        if response.status != 200:
            self.figures.failed.append(f"{response.status}: {text[:100]!r}")


async def _call_and_copy(caller: _Caller, folder: Path, figures: Figures) -> None:
    """Make one copy after the other for as long as there are calls; then audit each."""
    copies: list[Path] = []
    async with asyncio.TaskGroup() as group:
        calling = group.create_task(caller.call_for(TURN_SECONDS, figures.copying))
        while not calling.done():
            copies.append(folder / f"copy-{len(copies)}.db")
            await _copy(folder, copies[-1])
    for copy in copies:
        await asyncio.to_thread(_prove, copy)
        copy.unlink()
    figures.copies += len(copies)


async def _copy(folder: Path, copy: Path) -> None:
    command = (sys.executable, "-m", "gateway", "--config", str(folder / "gateway.toml"))
    making = await asyncio.create_subprocess_exec(
        *command, "backup", str(copy), stderr=asyncio.subprocess.DEVNULL
    )
    assert await making.wait() == 0


async def _watch_wal(folder: Path, figures: Figures) -> None:
    wal = folder / "gateway.db-wal"
    while True:
        figures.wal_bytes = max(figures.wal_bytes, wal.stat().st_size)
        await asyncio.sleep(SAMPLE_SECONDS)


def _prepare(folder: Path, requests: int) -> str:
    """Make a database with a past, and a key to it."""
    text = CONFIG.format(port=free_port(), server="", billing="", currency="USD", more="")
    (folder / "gateway.toml").write_text(text, encoding="utf-8")
    path = folder / "gateway.db"
    fill(path, History(requests=requests))
    with open_books(path) as books:
        return keys.add_key(books, ACCOUNT, KeyTerms(requests_per_minute=0, concurrency=0)).secret


def _read_port(folder: Path) -> int:
    text = (folder / "gateway.toml").read_text(encoding="utf-8")
    return int(text.partition("port = ")[2].partition("\n")[0])


def _prove(path: Path) -> None:
    with closing(open_books(path)) as books:
        assert books.audit().problems == ()


def _ms(seconds: list[float], share: float) -> str:
    ordered = sorted(seconds)
    return f"{ordered[int(len(ordered) * share)] * 1000:.1f}" if ordered else "-"
