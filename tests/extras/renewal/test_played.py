"""Requests to a provider whose keys change, as in `tests/upstream/test_played.py`.

$ provider key-a command       a provider with these keys, of which one is what a command prints
$ issue second-key             from now on this key counts alone, and the command prints it
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from gateway.base.errors import Overloaded
from gateway.base.turns import spawn
from gateway.config.records import KeySource
from gateway.extras.renewal.keys import EARLY_SECONDS, Renewal
from gateway.upstream.keys import ProviderKey
from tests.ledger.player import play_session, read_sessions
from tests.support.config import Places
from tests.support.records import make_provider
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until
from tests.upstream.test_played import ASK_SECONDS, Player

SESSIONS: Final = read_sessions(Path(__file__).with_name("played"))
COMMANDS: Final = {
    "command": ("sh", "-c", "echo >> runs; cat token"),
    "failing": ("false",),
    "hanging": ("sleep", "600"),
    "file": (),
}
"""How a key is found that is not told at once."""


class Eager:
    """Gives another key whenever it is asked."""

    def __init__(self, key: ProviderKey) -> None:
        self._key, self._count = key, 0

    def renew_early(self, refused: str) -> None:
        del refused

    async def replace(self, refused: str, is_over: Callable[[], bool]) -> bool:
        del refused, is_over
        self._count += 1
        return self._key.renew(f"key-{self._count}")


@dataclass(slots=True)
class RenewingPlayer(Player):
    renewals: list[Renewal] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def do_provider(self, *keys: str) -> str:
        sources = [
            KeySource("file:token" if one == "file" else one, COMMANDS[one], self.folder, 3000)
            if one in COMMANDS
            else None
            for one in keys
        ]
        secrets = tuple("" if one in COMMANDS else one for one in keys)
        self.make(make_provider(base_url=self.url, api_keys=secrets, sources=tuple(sources)))
        await self.do_issue(*filter(None, secrets), "first-key")
        for key in self.way.forwarder.keys:
            if key.source is not None:
                key.renewing = renewal = Renewal("cloud", key, key.source)
                self.renewals.append(renewal)
                self.tasks.append(spawn(renewal.run(), name="renewal"))
        return ""

    async def do_issue(self, *keys: str) -> str:
        """Let these keys count alone, and have the last one printed; the last renewal is long ago."""
        self.valid = set(keys)
        (self.folder / "token").write_text(keys[-1])
        for renewal in self.renewals:
            renewal._began -= EARLY_SECONDS
        return ""

    async def do_ask(self, *words: str) -> str:
        """Ask also of `20 callers` in turn."""
        if words[1:] != ("callers",):
            return await Player.do_ask(self, *words)
        callers = [str(number) for number in range(int(words[0]))]
        ends = {await self.ask(find_affinity=partial(str, caller)) for caller in callers}
        await self.do_wait()
        return ", ".join(sorted(ends))

    async def do_stopped(self) -> str:
        """Ask, and stop the gateway meanwhile."""
        opening = self.way.begin(attempt := self.way.make_attempt())
        await asyncio.sleep(0)
        attempt.life.stop(Overloaded("The gateway stops."))
        async with asyncio.timeout(ASK_SECONDS):
            with pytest.raises(Overloaded):
                await opening
        return ""

    async def do_remove(self) -> str:
        (self.folder / "token").unlink()
        return ""

    async def do_hurry(self) -> str:
        """Let the first key be renewed soon, as if it had been refused."""
        self.renewals[0].renew_early(self.way.forwarder.keys[0].secret)
        return await self.do_wait()

    async def do_wait(self) -> str:
        """Wait until nothing is being renewed."""
        await until(self.renewals[0]._done.is_set, "the renewal")
        return ""

    async def do_renew(self) -> str:
        return f"again in {await self.renewals[0]._renew():.0f} s"

    async def do_runs(self) -> str:
        """Tell how often the command has run."""
        return str((self.folder / "runs").read_text().count("\n"))

    async def do_kept(self) -> str:
        """Tell the keys for which there are heads of requests."""
        return " ".join(sorted({secret for _, secret in self.way.forwarder._heads}))

    async def do_eager(self) -> str:
        (key,) = self.way.forwarder.keys
        key.renewing = Eager(key)
        return ""

    async def do_settings(self, command: str) -> str:
        """Take other settings; tell the key that is kept."""
        provider = self.way.forwarder.provider
        (source,) = provider.sources
        assert source is not None
        changed = replace(source, place=command, command=COMMANDS[command])
        self.make(replace(provider, sources=(changed,)))
        return self.way.forwarder.keys[0].secret or "none"

    async def do_end(self) -> str:
        """End all renewals."""
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        return ""


@pytest.mark.parametrize("title", SESSIONS)
async def test_a_session_goes_as_it_is_written(
    tmp_path: Path,
    alpha: ScriptedUpstream,
    places: Places,
    caplog: pytest.LogCaptureFixture,
    title: str,
) -> None:
    player = RenewingPlayer(alpha, places.urls["alpha"], tmp_path, caplog)
    alpha.always(player.answer)
    try:
        await play_session(*SESSIONS[title], player.play)
    finally:
        await player.do_end()
        player.close()
