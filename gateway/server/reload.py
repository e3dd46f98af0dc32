"""gateway.toml read again while serving.

The life of a reload:

    SIGHUP            sets an event, so that signals during a reload cause one more, and none is lost
    in a thread       the file is read and checked as at the start; the routes are made
    in one step       configuration and routes are replaced, so each request finds both old or both new;
                      what was made of settings at the start is told (`Reloader.told`)
    in a thread       the result becomes an event, which `python -m gateway reload` waits for

An error in the first thread changes nothing. Requests in flight keep the model, the prices and the
providers they began with: they hold the records, and nobody cuts their connections. A provider whose
settings are the same keeps its connections, breakers and pauses.

Everything else reads `Gateway.config` and `Gateway.routes` when it needs them, and keeps nothing
beyond one request. The settings that cannot change so are named by `config.keep_fixed`.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from gateway.admin import reload as asking
from gateway.api.state import Gateway
from gateway.app import make_routes
from gateway.config.load import describe_changes, keep_fixed, load_config
from gateway.config.reader import ConfigError
from gateway.config.records import Config, Reload
from gateway.ledger.opening import open_books
from gateway.ledger.records import LedgerError
from gateway.server.connections import fit_to_files
from gateway.times import unix_ms

log = logging.getLogger("gateway.reload")


@dataclass(frozen=True, slots=True)
class Reloader:
    """Reads the configuration again whenever it is asked to."""

    gateway: Gateway
    told: Sequence[Callable[[Config], object]]
    """Called with the new configuration: what was made of the old one."""
    asked: asyncio.Event
    load: Callable[[Path, Mapping[str, str]], Config] = load_config

    async def run(self) -> None:
        """Answer one question after the other, until cancelled."""
        while True:
            await self.asked.wait()
            self.asked.clear()
            result = await self._reload(unix_ms())
            await asyncio.to_thread(self._note, result)

    async def _reload(self, at_ms: int) -> Reload:
        """Go by what the file says now, or change nothing and return why."""
        gateway = self.gateway
        try:
            config, restart_for, swap = await asyncio.to_thread(self._prepare)
        except ConfigError as error:
            words = "; ".join(str(error).splitlines())
            return self._show(Reload(at_ms, ok=False, words=words))
        except Exception:
            log.exception("%s could not be read again", gateway.config.path)
            words = "the gateway failed to read the file: its log says how"
            return self._show(Reload(at_ms, ok=False, words=words))
        words = describe_changes(gateway.config, config)
        swap()
        result = self._show(Reload(at_ms, ok=True, words=words, restart_for=restart_for))
        for tell in self.told:
            tell(config)
        return result

    def _prepare(self) -> tuple[Config, tuple[str, ...], Callable[[], None]]:
        """Read and check the file and make the routes; return what replaces the old ones in one step.

        Raises ConfigError.
        """
        gateway = self.gateway
        read = fit_to_files(self.load(gateway.config.path, os.environ))
        config, restart_for = keep_fixed(gateway.config, read)
        routes = make_routes(config, before=gateway.routes)
        return config, restart_for, partial(gateway.go_by, config, routes)

    def _show(self, result: Reload) -> Reload:
        """Tell the log and the page Health. After a refusal, what waited for a restart still does."""
        last = self.gateway.last_reload
        if not result.ok:
            log.error("the reload is refused and nothing changed: %s", result.words)
            result = replace(result, restart_for=() if last is None else last.restart_for)
        else:
            log.info("%s is in force: %s", self.gateway.config.path, result.words)
        if result.restart_for:
            log.warning("a restart is needed for: %s", ", ".join(result.restart_for))
        self.gateway.last_reload = result
        return result

    def _note(self, result: Reload) -> None:
        """Keep the result as an event."""
        config = self.gateway.config
        try:
            with open_books(config.storage.location) as books:
                asking.note(books, result, str(config.path), os.getpid())
        except LedgerError as error:
            log.warning("the reload is not in the log of events: %s", error)
