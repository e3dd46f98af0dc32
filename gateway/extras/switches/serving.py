"""Switches in the process that serves: read at the start, and again when the ledger tells.

The configuration that is served is adjusted: a model or a provider that is off gets a reason for it, as a
provider without its key has. Requests in flight keep the configuration that they began with.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from gateway.api.state import Gateway
from gateway.base.turns import spawn
from gateway.config.records import Config
from gateway.extension import Started
from gateway.extras.switches.book import SwitchBook
from gateway.extras.switches.records import Switch
from gateway.ledger.opening import open_books
from gateway.ledger.records import LedgerError, Location

log = logging.getLogger("gateway.switches")

RETRY_SECONDS: Final = 1.0
"""The pause after a read that failed, as another program may keep the ledger locked."""


class Switches:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._off: list[Switch] = []
        self._told = asyncio.Event()
        self._turn = asyncio.Lock()
        """Held while the ledger is read, so that an older reading never replaces a newer one."""

    def adjust(self, config: Config) -> Config:
        return switch(config, self._off)

    async def refresh(self) -> None:
        """Read what is off, and have the configuration adjusted if that is new. Raises LedgerError."""
        async with self._turn:
            off = await asyncio.to_thread(_read, self._gateway.config.storage.location)
            if off == self._off:
                return
            before, self._off = self._off, off
            try:
                await self._gateway.reconfigure()
            except BaseException:
                self._off = before  # so that the next look tries again
                raise
        log.info(
            "switched off: %s", ", ".join(f"{one.kind} {one.name}" for one in off) or "nothing"
        )

    @asynccontextmanager
    async def run(self) -> AsyncIterator[None]:
        """Read before anybody is served, and follow what is changed meanwhile. Raises LedgerError."""
        self._gateway.ledger.change_watchers.append(self._told.set)
        await self.refresh()
        following = spawn(self._follow(), name="switches")
        try:
            yield
        finally:
            following.cancel()

    async def _follow(self) -> None:
        while True:
            await self._told.wait()
            self._told.clear()
            try:
                await self.refresh()
            except LedgerError as error:
                log.warning("what is switched off could not be read, and is read again: %s", error)
            except Exception:
                # A bug must not leave a process that serves deaf to switches.
                log.exception(
                    "what is switched off could not be brought into force, and is tried again"
                )
            else:
                continue
            await asyncio.sleep(RETRY_SECONDS)
            self._told.set()


def switch(config: Config, off: Iterable[Switch]) -> Config:
    """Return the configuration with the switches applied; names that it does not have are ignored."""
    reasons = {(one.kind, one.name): one.reason for one in off}
    if not reasons:
        return config
    models = {
        name: replace(one, off=reasons.get(("model", name), one.off))
        for name, one in config.models.items()
    }
    providers = {
        name: replace(one, off=reasons.get(("provider", name), one.off))
        for name, one in config.providers.items()
    }
    return replace(config, models=MappingProxyType(models), providers=MappingProxyType(providers))


def _read(location: Location) -> list[Switch]:
    with open_books(location) as books:
        return SwitchBook(books).read_all()


def start(gateway: Gateway) -> Started:
    switches = Switches(gateway)
    return Started(offers=(switches,), adjust=switches.adjust, run=switches.run)
