"""Start a gateway with its configuration, callers and books, or as a newcomer does."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from gateway.ledger.opening import open_books
from tests import ROOT
from tests.support import config, seed
from tests.support.books import SETTLE_SECONDS, Books
from tests.support.process import GatewayProcess, free_port
from tests.support.seed import Caller, Seed
from tests.support.waiting import POLL_SECONDS


@dataclass(frozen=True, slots=True)
class Running:
    """A gateway with its callers."""

    gateway: GatewayProcess
    callers: dict[str, Caller]
    places: config.Places

    @property
    def books(self) -> Books:
        return Books(self.gateway.database)

    def prove_books(self) -> None:
        """Check that no hold is open and every balance is the sum of its entries."""
        deadline = time.monotonic() + SETTLE_SECONDS
        with open_books(self.gateway.database) as books:
            while (report := books.audit()).pending and time.monotonic() < deadline:
                time.sleep(POLL_SECONDS)
        assert report.ok, report.problems
        assert (report.pending, report.interrupted) == (0, 0)


class Launch(Protocol):
    """Starts a gateway with special settings, such as `server`; after the test, stops it and checks its books."""

    def __call__(
        self,
        *,
        seeds: tuple[Seed, ...] = ...,
        kinds: dict[str, config.Kind] | None = None,
        **tables: str,
    ) -> Running: ...


def start(
    folder: Path,
    places: config.Places,
    *,
    seeds: tuple[Seed, ...],
    kinds: dict[str, config.Kind],
    module: str = "gateway",
    **tables: str,
) -> Running:
    """Write configuration and accounts into the folder and start a gateway; `tables` are for `write_config`."""
    process = GatewayProcess(folder, free_port(), module=module)
    text = config.write_config(places, port=process.port, kinds=kinds, **tables)
    process.config.write_text(text, encoding="utf-8")
    callers = seed.seed(process.database, seeds)
    process.canaries += [caller.key.encode() for caller in callers.values()]
    process.canaries += [secret.encode() for secret in places.secrets.values()]
    process.start()
    return Running(process, callers, places)


KEY: Final = re.compile(r"sk-ru-[0-9A-Za-z]{38}")


def start_newcomer(folder: Path) -> GatewayProcess:
    """Start a gateway with the shipped gateway.toml, changed only in its port."""
    gateway = GatewayProcess(folder, free_port())
    text = (ROOT / "gateway.toml").read_text(encoding="utf-8")
    changed = re.sub(r"(?m)^port = \d+", f"port = {gateway.port}", text)
    assert changed != text
    gateway.config.write_text(changed, encoding="utf-8")
    gateway.start()
    return gateway


def find_first_key(gateway: GatewayProcess) -> tuple[Path, str]:
    """Find the one file beside the database that the log names and that has a key in it."""
    for path in gateway.folder.iterdir():
        if path.name in gateway.log and path not in {gateway.config, gateway.database}:
            found = KEY.search(path.read_text(encoding="utf-8", errors="replace"))
            if found:
                return path, found[0]
    raise AssertionError(gateway.log)
