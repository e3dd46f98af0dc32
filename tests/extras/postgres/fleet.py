"""Several gateways on one PostgreSQL, each a process of its own, whose clocks may be wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg

from gateway.ledger.opening import open_books
from gateway.ledger.records import DatabaseUrl
from gateway.ledger.sql.books import Books
from tests.support import config, seed
from tests.support.process import GatewayProcess, free_port
from tests.support.seed import Caller, Seed
from tests.support.upstream import ScriptedUpstream, listen, port_of, serve_scripts

KINDS: Final = {"plain": config.Kind(("alpha",), 1)}
MODEL: Final = "plain/0"
WRONG_SUMS: Final = """
    SELECT accounts.name, balance_nano, held_nano, in_flight FROM accounts WHERE
    balance_nano <> (
        SELECT coalesce(sum(amount_nano), 0) FROM entries WHERE account_id = accounts.id
    ) OR (held_nano, accounts.unheld_nano, in_flight) <> (
        SELECT coalesce(sum(hold_nano), 0), coalesce(sum(requests.unheld_nano), 0), count(*)
        FROM requests
        WHERE account_id = accounts.id AND state = 'pending'
    )
"""
"""Accounts whose sums are not those of their rows: there are none at any moment."""
WRONG_CLOCK: Final = """
import time
true_time, true_time_ns = time.time, time.time_ns
time.time = lambda: true_time() + {seconds}
time.time_ns = lambda: true_time_ns() + {seconds} * 10**9
"""


@dataclass(slots=True)
class Node(GatewayProcess):
    """One gateway of several."""

    clock_ahead_seconds: int = 0
    dead: bool = False
    """It was killed, stopped or taken over: its callers may see anything."""

    @property
    def environment(self) -> dict[str, str]:
        """Let Python, as it starts, import a module that sets its clock."""
        given = super(Node, self).environment
        if not self.clock_ahead_seconds:
            return given
        script = WRONG_CLOCK.format(seconds=self.clock_ahead_seconds)
        (self.folder / "sitecustomize.py").write_text(script, encoding="utf-8")
        paths = (str(self.folder), os.environ.get("PYTHONPATH", ""))
        return given | {"PYTHONPATH": os.pathsep.join(path for path in paths if path)}

    @property
    def pid(self) -> int:
        assert self.process is not None
        return self.process.pid

    def kill(self) -> None:
        """Kill it as `kill -9` does."""
        self.dead = True
        super(Node, self).kill()

    def freeze(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGCONT)

    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None


@dataclass(slots=True)
class Fleet:
    """Nodes that share a database, its callers, and the provider of them all."""

    folder: Path
    url: str
    places: config.Places
    callers: dict[str, Caller]
    upstream: ScriptedUpstream
    nodes: list[Node] = field(default_factory=list)
    """All that were started, dead ones too."""

    @property
    def alive(self) -> list[Node]:
        return [node for node in self.nodes if not node.dead]

    async def start_node(self, *, clock_ahead_seconds: int = 0) -> Node:
        """Start a node more."""
        folder = self.folder / f"node-{len(self.nodes)}"
        folder.mkdir()
        node = Node(folder, free_port(), clock_ahead_seconds=clock_ahead_seconds)
        node.canaries += [caller.key.encode() for caller in self.callers.values()]
        text = config.write_config(self.places, port=node.port, kinds=KINDS).replace(
            'path = "gateway.db"', f'url = "{self.url}"'
        )
        node.config.write_text(text, encoding="utf-8")
        await asyncio.to_thread(node.start)
        self.nodes.append(node)
        return node

    async def start_nodes(self, count: int = 3) -> list[Node]:
        return [await self.start_node() for _ in range(count)]

    def open_books(self) -> Books:
        return open_books(DatabaseUrl(self.url))

    def query(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        with psycopg.connect(self.url, autocommit=True) as connection:
            return connection.execute(sql.encode(), values).fetchall()

    def count_pending(self, node: Node) -> int:
        """Return how many requests the node holds money for."""
        ((count,),) = self.query(
            "SELECT count(*) FROM requests JOIN nodes ON nodes.id = node_id"
            " WHERE state = 'pending' AND pid = %s",
            node.pid,
        )
        return int(count)

    def list_alive(self) -> set[int]:
        """Return the processes whose rows say that they serve."""
        return {pid for (pid,) in self.query("SELECT pid FROM nodes WHERE ended_at IS NULL")}

    def prove_books(self) -> None:
        """Prove everything while nothing is in flight."""
        assert self.query(WRONG_SUMS) == []
        with self.open_books() as books:
            report = books.audit()
        assert report.ok, report.problems
        assert report.pending == 0

    async def stop(self) -> None:
        """Stop what still runs, each with exit 0, and no traceback in its log."""
        for node in self.alive:
            await asyncio.to_thread(node.stop)

    def destroy(self) -> None:
        """Kill what a failed test left behind."""
        for node in self.nodes:
            if node.is_running():
                node.kill()


@contextlib.asynccontextmanager
async def run_fleet(
    folder: Path, url: str, seeds: tuple[Seed, ...], *, nodes: int = 3
) -> AsyncIterator[Fleet]:
    """Make the ledger and start nodes on it; at the end they are stopped, and the books proved."""
    callers = seed.seed(DatabaseUrl(url), seeds)
    with _listening() as (listener, places):
        async with serve_scripts(listener) as upstream:
            fleet = Fleet(folder, url, places, callers, upstream)
            try:
                await fleet.start_nodes(nodes)
                yield fleet
                await fleet.stop()
            finally:
                fleet.destroy()
    fleet.prove_books()


@contextlib.contextmanager
def _listening() -> Iterator[tuple[Any, config.Places]]:
    with listen() as listener:
        yield listener, config.make_places({"alpha": port_of(listener)})
