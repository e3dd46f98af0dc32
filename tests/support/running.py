"""A gateway with its configuration, its callers and its books, started for tests."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from gateway import accounts
from support import config, seed
from support.books import SETTLE_SECONDS, Books
from support.process import GatewayProcess, free_port
from support.seed import Caller, Seed
from support.waiting import POLL_SECONDS


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway with the callers it knows."""

    gateway: GatewayProcess
    callers: dict[str, Caller]
    places: config.Places

    @property
    def books(self) -> Books:
        return Books(self.gateway.database)

    def prove_books(self) -> None:
        """No hold is left open, and every balance is the sum of its entries."""
        deadline = time.monotonic() + SETTLE_SECONDS
        with accounts.open_books(self.gateway.database) as books:
            while (report := accounts.audit(books)).pending and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        assert report.ok, report.problems
        assert (report.pending, report.interrupted) == (0, 0)


class Launch(Protocol):
    """Starts a gateway with settings of its own; it is stopped, and proved, after the test."""

    def __call__(
        self,
        *,
        seeds: tuple[Seed, ...] = ...,
        kinds: dict[str, config.Kind] | None = None,
        server: str = "",
        billing: str = "",
    ) -> Running: ...


def start(
    folder: Path,
    places: config.Places,
    *,
    seeds: tuple[Seed, ...],
    kinds: dict[str, config.Kind],
    server: str = "",
    billing: str = "",
) -> Running:
    """Write configuration and accounts into the folder, and serve from it."""
    process = GatewayProcess(folder, free_port())
    process.config.write_text(
        config.write_config(places, port=process.port, kinds=kinds, server=server, billing=billing),
        encoding="utf-8",
    )
    callers = seed.seed(process.database, seeds)
    process.canaries += [caller.key.encode() for caller in callers.values()]
    process.canaries += [secret.encode() for secret in places.secrets.values()]
    process.start()
    return Running(process, callers, places)
