"""Renews providers' keys while the gateway serves, from a command or a file.

A completion reads `ProviderKey.secret`. It waits only if the provider refused the key or no key is known
yet. While renewals fail, the old key stays in use.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Final

import orjson

from gateway.base.deadlines import TICK_SECONDS, limit_seconds
from gateway.base.times import unix_ms
from gateway.base.turns import run_apart, spawn
from gateway.config.records import Config, KeySource, Provider
from gateway.config.secrets import expand_variables, find_mistake, resolve_secret
from gateway.extras.commands.running import CommandFailed, run_command
from gateway.upstream.keys import ProviderKey
from gateway.upstream.routing import Routes

log = logging.getLogger("gateway.renewal")

COMMAND_SECONDS: Final = 30.0
"""Seconds that a command may take: a cloud's command line takes three, and more on a slow disk."""
MAX_OUTPUT: Final = 1 << 16
"""Bytes of a command's output; a key has 2 KiB, and up to 16 with many groups in it."""
AHEAD_SECONDS: Final = 300.0
"""Seconds before its expiry at which a key is renewed: clouds' commands print no new key earlier."""
RETRY_SECONDS: Final = 30.0
"""Seconds to wait after a failure, and at least between two scheduled renewals: a command that takes seconds
must not run all the time."""
MAX_WAIT_SECONDS: Final = 30 * 86_400.0
"""The most seconds until the next renewal, a month, whatever expiry a command states: no cloud issues keys
for longer."""
FILE_SECONDS: Final = 5.0
"""Seconds between two checks of a file: a check takes microseconds, and a new key is soon in use."""
EARLY_SECONDS: Final = 10.0
"""The least seconds between two runs of a command if a refused key asks for the second: refusals may come by
the hundred."""
EARLY_FILE_SECONDS: Final = 0.5
"""The least seconds between two reads of a file if a refused key asks for the second: less than for a
command, as a read is cheap."""
WAIT_SECONDS: Final = 10.0
"""Seconds that a request waits for the renewal of a key: its caller waits, too."""


async def fetch_key(source: KeySource) -> tuple[str, float | None]:
    """Run a source's command; return the key and its expiry in Unix seconds, if the command states one.

    Raises CommandFailed, or ValueError if the output is no key.
    """
    output = await run_command(
        source.command,
        limit_seconds=COMMAND_SECONDS,
        max_output=MAX_OUTPUT,
        folder=source.folder,
        variables=source.variables,
    )
    return read_output(output, time.time())


async def fetch_all(config: Config) -> Config:
    """Run the commands of all keys, once each and concurrently; return the new configuration."""
    fetched = await asyncio.gather(*map(_fetch_keys, config.providers.values()))
    return replace(config, providers={one.name: one for one in fetched})


async def _fetch_keys(provider: Provider) -> Provider:
    """Return the provider with the keys that its commands print, or with the reasons why they print none."""
    keys, lacking = [], [*provider.lacking]
    for secret, source in zip(provider.api_keys, provider.sources, strict=True):
        try:
            if source is not None and source.command:
                secret, _ = await fetch_key(source)  # noqa: PLW2901 - instead of none
            keys.append(secret)
        except (CommandFailed, ValueError) as error:
            lacking.append(str(error))
    return replace(provider, api_keys=tuple(keys), lacking=tuple(lacking))


def read_output(output: bytes, now: float) -> tuple[str, float | None]:
    """Read a key and its expiry in Unix seconds from one word, or from JSON as clouds' commands print it.

    Raises ValueError, whose message does not quote the output.
    """
    text, ends = output.strip(), None
    if text.startswith(b"{"):
        try:
            printed = orjson.loads(text)
        except orjson.JSONDecodeError:
            raise ValueError("the command printed broken JSON") from None  # which it quotes
        # kubectl's ExecCredential has a `status`, gcloud's config-helper a `credential`.
        inner = printed.get("status") or printed.get("credential")
        fields = inner if isinstance(inner, dict) else printed
        key = _find(fields, "access_token", "accessToken", "token")
        ends = _find_end(fields, now)
    else:
        key = text.decode("ascii", "replace")
    if not key or not isinstance(key, str):
        raise ValueError("the command printed no key")
    if mistake := find_mistake(key):
        raise ValueError(f"what the command printed {mistake.problem}")
    return key, ends


def _find(printed: Mapping[str, object], *names: str) -> object:
    return next((printed[name] for name in names if printed.get(name)), None)


def _find_end(printed: Mapping[str, object], now: float) -> float | None:
    """Find the expiry of a key in Unix seconds; None if there is none. Raises ValueError if it is no time."""
    lasts, ends = printed.get("expires_in"), printed.get("expires_on")
    moment = _find(printed, "expirationTimestamp", "token_expiry", "expiresOn")
    try:
        if lasts is not None:
            return now + float(str(lasts))
        if ends is not None:
            return float(str(ends))
        # Azure's command line writes the local time, without an offset.
        return None if moment is None else datetime.fromisoformat(str(moment)).timestamp()
    except (ValueError, OverflowError):
        raise ValueError("the command printed an end of the key that is no time") from None


def find_wait(ends: float | None, refresh_seconds: float, now: float) -> float:
    """Return the seconds to wait until a key that was just printed is renewed."""
    if ends is None or not math.isfinite(ends):
        return refresh_seconds
    return min(max(ends - now - AHEAD_SECONDS, RETRY_SECONDS), MAX_WAIT_SECONDS)


class KeyFile:
    """The file with a key. Kubernetes updates it by replacing a link."""

    def __init__(self, source: KeySource) -> None:
        self._source = source
        self._seen: tuple[int, ...] | None = None

    def read(self) -> str | None:
        """Return the key in the file, or None if it has not changed. Raises ValueError."""
        source = self._source
        path = source.folder / expand_variables(source.place.partition(":")[2], os.environ)
        # The mark is taken before the content is read, so that a change in between is noticed next time.
        mark = _mark(path)
        if mark is not None and mark == self._seen:
            return None
        secret, reason = resolve_secret(source.place, source.folder, os.environ)
        if reason is not None:
            raise ValueError(reason)
        self._seen = mark
        return secret


def _mark(path: Path) -> tuple[int, ...] | None:
    try:
        status = path.stat()
    except OSError:
        return None  # reading the file will say why
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


class Renewal:
    """Keeps one key current until it is cancelled. See `Renewing`."""

    def __init__(self, provider: str, key: ProviderKey, source: KeySource) -> None:
        self._provider = provider
        self._key = key
        self._source = source
        self._file = None if source.command else KeyFile(source)
        self._wake = asyncio.Event()
        self._done = asyncio.Event()
        """Set while no renewal is under way."""
        self._began = -math.inf
        """When the last renewal began, in monotonic seconds."""

    async def run(self) -> None:
        try:
            while True:
                self._wake.clear()
                self._done.clear()
                self._began = time.monotonic()
                wait_seconds = await self._renew()
                self._done.set()
                with suppress(TimeoutError):
                    async with asyncio.timeout(wait_seconds):
                        await self._wake.wait()
        finally:
            # Requests in flight must not wait for a renewal that was cancelled.
            self._began = math.inf
            self._done.set()

    def renew_early(self, refused: str) -> None:
        pause_seconds = EARLY_FILE_SECONDS if self._file else EARLY_SECONDS
        is_due = time.monotonic() - self._began >= pause_seconds
        if self._key.secret == refused and self._done.is_set() and is_due:
            self._done.clear()
            self._wake.set()

    async def replace(self, refused: str, is_over: Callable[[], bool]) -> bool:
        self.renew_early(refused)
        with suppress(TimeoutError):
            async with limit_seconds(WAIT_SECONDS):
                while not self._done.is_set() and not is_over():
                    with suppress(TimeoutError):
                        async with asyncio.timeout(TICK_SECONDS):
                            await self._done.wait()
        return self._key.secret not in {refused, ""}

    async def _renew(self) -> float:
        """Renew the key; return the seconds until the next renewal."""
        try:
            secret, wait_seconds = await self._fetch()
        except (CommandFailed, ValueError, RuntimeError) as error:  # of `run_apart`: no thread
            self._note(str(error))
            return FILE_SECONDS if self._file else RETRY_SECONDS
        if self._key.problem:
            log.info("provider %s: its key can be renewed again", self._provider)
        if self._key.renew(secret or self._key.secret):
            log.info("provider %s: its key is now …%s", self._provider, self._key.last4)
        return wait_seconds

    async def _fetch(self) -> tuple[str | None, float]:
        """Return the key (None if it has not changed) and the seconds until the next renewal."""
        if self._file is not None:
            # In a thread of its own, as the file may be on a network disk that is dead.
            return await run_apart(self._file.read), FILE_SECONDS
        secret, ends = await fetch_key(self._source)
        return secret, find_wait(ends, self._source.refresh_seconds, time.time())

    def _note(self, problem: str) -> None:
        if problem != self._key.problem:
            log.warning("provider %s: its key was not renewed: %s", self._provider, problem)
        self._key.note_failure(problem, unix_ms())


class Renewals:
    """Renews the keys of all providers, each in its own task."""

    def __init__(self) -> None:
        self._tasks: dict[ProviderKey, Callable[[], object]] = {}
        """The function that ends the task of each key."""

    def follow(self, routes: Routes) -> None:
        """Renew the keys of these routes; stop renewing all others."""
        wanted = {
            key: (state.name, key.source)
            for state in routes.providers.values()
            for key in state.keys
            if key.source is not None
        }
        for key in self._tasks.keys() - wanted.keys():
            self._tasks.pop(key)()
        for key in wanted.keys() - self._tasks.keys():
            renewal = Renewal(wanted[key][0], key, wanted[key][1])
            key.renewing = renewal
            task = spawn(renewal.run(), name=f"key of {wanted[key][0]}")
            self._tasks[key] = task.cancel

    def close(self) -> None:
        for end in self._tasks.values():
            end()
        self._tasks.clear()
