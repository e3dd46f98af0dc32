"""gateway.toml read again while serving.

The life of a reload:

    SIGHUP            sets an event, so that signals during a reload cause one more, and none is lost
    in its own thread the file is read and checked as at the start; its disk may be dead
    in a thread       extras adjust what was read; the routes are made
    in one step       configuration and routes are replaced, so each request finds both old or both new;
                      `Gateway.reloaded` is called: for objects that were made from settings at the start
    in a thread       the result becomes an event, which `python -m gateway reload` waits for

An error in the first thread changes nothing. Requests in flight keep the model, the prices and the
providers they began with: they hold the records, and nobody cuts their connections. A provider whose
settings are the same keeps its connections, breakers and pauses.

Everything else reads `Gateway.config` and `Gateway.routes` when it needs them, and keeps nothing
beyond one request. The settings that cannot change so are named by `FIXED`.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gateway.api.front import tell
from gateway.api.state import Gateway
from gateway.base.times import unix_ms
from gateway.base.turns import run_apart, spawn
from gateway.config.load import list_warnings, load_config
from gateway.config.reader import ConfigError
from gateway.config.records import Config, Reload
from gateway.extension import find_tables
from gateway.extras.reloads import asking
from gateway.extras.reloads.prices import note_prices
from gateway.ledger.opening import open_books
from gateway.ledger.records import LedgerError
from gateway.server.connections import fit_to_files

log = logging.getLogger("gateway.reload")


@asynccontextmanager
async def reloading(gateway: Gateway) -> AsyncIterator[None]:
    """Read the file again at each SIGHUP, also for one that was blocked since the process began."""
    asked, loop = asyncio.Event(), asyncio.get_running_loop()
    # Not the loop's `add_signal_handler`: to remove that brings back the default, which ends the process.
    signal.signal(signal.SIGHUP, lambda *_: loop.call_soon_threadsafe(asked.set))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})  # it has a handler by now
    task = spawn(Reloader(gateway, asked).run(), name="reload")
    try:
        yield
    finally:
        task.cancel()
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


@dataclass(frozen=True, slots=True)
class Reloader:
    """Reads the configuration again whenever it is asked to."""

    gateway: Gateway
    asked: asyncio.Event
    load: Callable[[Path, Mapping[str, str]], Config] = load_config

    async def run(self) -> None:
        """Carry out one reload after the other, until cancelled."""
        await asyncio.to_thread(self._note, None)
        while True:
            await self.asked.wait()
            # Before the file is read, so that a signal in the meantime causes another reload.
            self.asked.clear()
            result = await self._reload(unix_ms())
            # In a thread, as another program may keep the books locked for seconds.
            await asyncio.to_thread(self._note, result)

    async def _reload(self, at_ms: int) -> Reload:
        """Apply the file as it is now, or change nothing and return why."""
        gateway = self.gateway
        try:
            config, restart_for = await run_apart(self._read)
            # Before the swap, which replaces the configuration that is compared.
            words = describe_changes(gateway.read, config)
            await gateway.reconfigure(config)
        except ConfigError as error:
            # The log and the event take one line.
            words = "; ".join(str(error).splitlines())
            return self._show(Reload(at_ms, ok=False, words=words))
        except Exception:
            # A bug in the reading must not stop a process that serves well with the old settings.
            log.exception("%s could not be read again", gateway.config.path)
            words = "the gateway failed to read the file: its log says how"
            return self._show(Reload(at_ms, ok=False, words=words))
        if doubtful := len([*list_warnings(config)]):
            words += f"; {doubtful} warning{'s' * (doubtful > 1)}, which the log and `check` tell"
        result = self._show(Reload(at_ms, ok=True, words=words, restart_for=restart_for))
        tell(gateway.reloaded, gateway.config)
        return result

    def _read(self) -> tuple[Config, tuple[str, ...]]:
        """Read and check the file; return the configuration for now, and the keys that wait for a restart.

        Raises ConfigError.
        """
        path, served = self.gateway.config.path, self.gateway.config.models
        read = fit_to_files(self.load(path, os.environ))
        if served and not read.models:  # a full disk leaves an empty file
            raise ConfigError(
                f"{path}: has no model, and some are served; if it was cut short, restore it; to serve"
                " none, restart the gateway"
            )
        return keep_fixed(self.gateway.config, read)

    def _show(self, result: Reload) -> Reload:
        """Show the result in the log and on the page Health. After a refusal the same keys wait as before."""
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

    def _note(self, result: Reload | None) -> None:
        """Store changes of prices and, except at the start, the result as events."""
        config, pid = self.gateway.config, os.getpid()
        prices = {name: model.prices for name, model in config.models.items()}
        try:
            with open_books(config.storage.location) as books:
                # First, since whoever asked for the reload waits for its event.
                note_prices(books, prices, pid)
                if result is not None:
                    asking.note(books, result, str(config.path), pid)
        except LedgerError as error:
            log.warning("the reload is not in the log of events: %s", error)
        except Exception:
            # A bug must not leave a process that serves deaf to reloads.
            log.exception("the reload is not in the log of events")


MAX_NAMED: Final = 5
"""Models or providers that a description names; it is a line of the log, and an event for ever."""


FIXED: Final = (
    *("server.host", "server.port", "storage.path", "storage.url", "storage.retention_months"),
    "billing.currency",
)
"""The settings that cannot change while the gateway serves.

The addresses and the database are open. The currency is the label of all that is stored as numbers: an
amount must not change its meaning between two pages.
"""


def keep_fixed(running: Config, read: Config) -> tuple[Config, tuple[str, ...]]:
    """Return `read` with the present `FIXED` settings, and the keys that wait for a restart.

    Tables of extras that are fixed are kept as a whole.
    """
    kept, waiting = read, []
    for key in FIXED:
        table, name = key.split(".")
        old = getattr(getattr(running, table), name)
        if old != getattr(getattr(read, table), name):
            waiting.append(key)
            kept = replace(kept, **{table: replace(getattr(kept, table), **{name: old})})
    fixed = {name: one.at_restart for name, one in find_tables().items() if one.at_restart}
    old, new = running.extras, read.extras
    waiting += [told for name, told in fixed.items() if old.get(name) != new.get(name)]
    extras = {name: one for name, one in new.items() if name not in fixed}
    extras |= {name: one for name, one in old.items() if name in fixed}
    return replace(kept, extras=extras), tuple(waiting)


def describe_changes(before: Config, after: Config) -> str:
    """Describe the differences, and the providers that are off, in one line.

    Tables are named without their values, which may be secrets.
    """
    old, new = _list_tables(before), _list_tables(after)
    changes = [
        _compare("models", before.models, after.models),
        _compare("providers", before.providers, after.providers),
        *(f"[{table}] changed" for table in old | new if old.get(table) != new.get(table)),
    ]
    summary = "; ".join(filter(None, changes)) or "nothing changed"
    # Also providers that were off before: whoever has set a variable in a shell expects them to be on.
    off = [f"{one.name} ({one.off})" for one in after.providers.values() if one.off is not None]
    if not off:
        return summary
    return f"{summary}; off: {_name(off)}; only a restart reads the gateway's environment again"


def _compare(what: str, before: Mapping[str, object], after: Mapping[str, object]) -> str:
    both = before.keys() & after.keys()
    groups = {
        "added": [name for name in after if name not in before],
        "removed": [name for name in before if name not in after],
        "changed": [name for name in after if name in both and before[name] != after[name]],
    }
    told = [f"{len(names)} {how} ({_name(names)})" for how, names in groups.items() if names]
    return f"{what}: {', '.join(told)}" if told else ""


def _name(names: Collection[str]) -> str:
    more = ["…"] if len(names) > MAX_NAMED else []
    return ", ".join([*list(names)[:MAX_NAMED], *more])


def _list_tables(config: Config) -> dict[str, object]:
    tables: dict[str, object] = {
        **{name: getattr(config, name) for name in ("server", "billing")},
        "limits": (config.limits, config.account_limits),
    }
    for name, table in find_tables().items():
        if name in config.extras:
            place = table.in_table or name  # an extra may add settings to a table
            tables[place] = (tables.get(place), config.extras[name])
    return tables
