"""Requests to a provider, by its keys and connections, played as they are written in `played/`.

    == the title of a session
    $ provider key-a command       a provider with these keys, of which one is what a command prints
    $ issue second-key             from now on this key counts alone, and the command prints it
    $ ask < 401 < RST              a request, and what the provider says (see tests/api/language.py)
    1 key-a, 2 second-key: served  by which connections and keys it went out, and how it ended
    ! …                            what the log says

Without a script the provider serves whoever has a key that counts. The state of keys is told where it is
not as in good times. Commands are `do_…` below. To write the answers anew:

    WRITE_SESSION=1 python -m pytest tests/upstream/test_played.py && git diff
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.config.records import KeySource, Provider
from gateway.errors import GatewayError, Overloaded, UpstreamError
from gateway.tasks import spawn
from gateway.upstream.attempt import STALE_SECONDS, CollectedBody, Response
from gateway.upstream.forwarder import HttpForwarder
from gateway.upstream.renewal import EARLY_SECONDS, Renewal
from gateway.upstream.rests import ProviderKey
from tests.api.language import read_script
from tests.ledger.player import play_session, read_sessions
from tests.support.config import Places
from tests.support.records import make_provider
from tests.support.replies import completion, error_reply, json_reply
from tests.support.upstream import Exchange, Script, ScriptedUpstream, Wait
from tests.support.waiting import until
from tests.upstream.kit import Way

SESSIONS: Final = read_sessions(Path(__file__).with_name("played"))
ASK_SECONDS: Final = 8.0
"""Less than a request waits for a key at most."""
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

    def hurry(self, refused: str) -> None:
        del refused

    async def replace(self, refused: str, is_over: Callable[[], bool]) -> bool:
        del refused, is_over
        self._count += 1
        return self._key.renew(f"key-{self._count}")


@dataclass(slots=True)
class Player:
    """A provider, the keys that count with it, and what it says next."""

    scripted: ScriptedUpstream
    url: str
    folder: Path
    caplog: pytest.LogCaptureFixture
    ways: list[Way] = field(default_factory=list)
    valid: set[str] = field(default_factory=set)
    said: list[Callable[[Exchange], Script]] = field(default_factory=list)
    opened: list[Response] = field(default_factory=list)
    renewals: list[Renewal] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    @property
    def way(self) -> Way:
        return self.ways[-1]

    def answer(self, exchange: Exchange) -> Script:
        if self.said:
            return self.said.pop(0)(exchange)
        is_known = exchange.headers["authorization"].removeprefix("Bearer ") in self.valid
        return json_reply(completion()) if is_known else error_reply(401, "It has expired.")

    async def play(self, line: str) -> str:
        self.caplog.clear()
        command, *scripts = line.split(" < ")
        self.said = [read_script(one) for one in scripts]
        verb, *words = command.split()
        do: Callable[..., Awaitable[str]] = getattr(self, f"do_{verb}")
        told = [await do(*words), *self.describe(), *(f"! {one}" for one in self.caplog.messages)]
        assert self.said == [], "it was asked less often"
        return "\n".join(filter(None, told)).replace(str(self.folder), "FOLDER")

    def describe(self) -> list[str]:
        """Return what is not as in good times."""
        told = []
        for key in self.way.forwarder.keys:
            told += [f"{key.secret}: {key.in_flight} in flight"] if key.in_flight else []
            # In tens of seconds: a busy machine may take some between two looks.
            rest_seconds = -(-key.rest_seconds // 10) * 10
            told += [f"{key.secret} rests {rest_seconds} s"] if rest_seconds else []
            told += [f"{key.secret}: {key.problem}"] if key.problem else []
        return told

    # ---- Commands ----------------------------------------------------------------------------------

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

    def make(self, provider: Provider) -> None:
        before = self.ways[-1].forwarder.keys if self.ways else ()
        self.ways.append(Way(HttpForwarder(provider, before), self.scripted))

    async def do_issue(self, *keys: str) -> str:
        """Let these keys count alone, and have the last one printed; the last renewal is long ago."""
        self.valid = set(keys)
        (self.folder / "token").write_text(keys[-1])
        for renewal in self.renewals:
            renewal._began -= EARLY_SECONDS
        return ""

    async def do_ask(self, *words: str) -> str:
        """Ask; `5` at once, or of `20 callers` in turn."""
        before = len(self.scripted.exchanges)
        async with asyncio.timeout(ASK_SECONDS):
            if words[1:] == ("callers",):
                ends = {
                    await self.ask(find_affinity=partial(str, number))
                    for number in range(int(words[0]))
                }
                await self.do_wait()
            else:
                count = int(words[0]) if words else 1
                ends = {*await asyncio.gather(*(self.ask() for _ in range(count)))}
        if words:
            return ", ".join(sorted(ends))
        return f"{self.list_sent(before)}: {', '.join(ends)}"

    async def do_left(self) -> str:
        """Ask for a caller who leaves meanwhile."""
        before = len(self.scripted.exchanges)
        end = await self.ask(is_wanted=lambda: False)
        return f"{self.list_sent(before)}: {end}"

    async def do_open(self) -> str:
        """Ask for one caller, and read the head of the reply."""
        self.opened.append(await self.way.open(self.way.make_attempt(find_affinity=lambda: "a")))
        return ""

    async def do_close(self, number: str) -> str:
        """Close a reply that was opened."""
        self.opened[int(number) - 1].close()
        return ""

    async def do_leave(self) -> str:
        """Ask, and leave while the head of the reply is waited for; tell what is in flight till then."""
        before = len(self.scripted.exchanges)
        opening = self.way.begin()
        await self.scripted.wait_for(before + 1)
        told = self.describe()
        opening.cancel()
        await asyncio.wait([opening])
        return "\n".join([*told, "left"])

    async def do_read(self) -> str:
        """Ask, and have the provider end its reply only when the head was read."""
        before, seen = len(self.scripted.exchanges), asyncio.Event()
        (said,) = self.said

        def answer(exchange: Exchange) -> Script:
            first, *rest = said(exchange)
            return [first, Wait(seen), *rest]

        self.said = [answer]
        end = await self.ask(opened=seen.set)
        return f"{self.list_sent(before)}: {end}"

    async def do_late(self) -> str:
        """Ask, and have the provider answer when the connection is no longer stale."""
        before, go_on = len(self.scripted.exchanges), asyncio.Event()
        (said,) = self.said
        self.said = [lambda exchange: [Wait(go_on), *said(exchange)]]
        opening = self.way.begin(attempt := self.way.make_attempt())
        await until(lambda: len(self.scripted.exchanges) > before, "the request to arrive")
        attempt._sent -= STALE_SECONDS
        go_on.set()
        with pytest.raises(UpstreamError):
            await opening
        return f"{self.list_sent(before)}: it fails"

    async def do_stopped(self) -> str:
        """Ask, and stop the gateway meanwhile."""
        opening = self.way.begin(attempt := self.way.make_attempt())
        await asyncio.sleep(0)
        attempt.fail(Overloaded("The gateway stops."))
        async with asyncio.timeout(ASK_SECONDS):
            with pytest.raises(Overloaded):
                await opening
        return ""

    async def do_idle(self) -> str:
        """Leave two idle connections."""
        for answer in [await self.way.open() for _ in range(2)]:
            await answer.deliver(CollectedBody())
            answer.close()
        return ""

    async def do_remove(self) -> str:
        (self.folder / "token").unlink()
        return ""

    async def do_hurry(self) -> str:
        """Let the first key be renewed soon, as if it had been refused."""
        self.renewals[0].hurry(self.way.forwarder.keys[0].secret)
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

    # ---- Answers -----------------------------------------------------------------------------------

    async def ask(self, **facts: Any) -> str:
        """Ask once; return how it ended."""
        try:
            body = await self.way.ask(**facts)
        except GatewayError as error:
            told = [f"{type(error).__name__} {self.way.forwarder.redact(error).message}"]
            if isinstance(error, UpstreamError):
                told += ["next route"] * error.next_route + [f"by {error.blame}"] * bool(
                    error.blame
                )
            return "; ".join(told)
        return "served" if b"choices" in body else f"served {body!r}"

    def list_sent(self, begin: int) -> str:
        """Return the connection and the key of each request from this one on."""
        sent = [
            f"{one.connection} {one.headers['authorization'].removeprefix('Bearer ')}"
            for one in self.scripted.exchanges[begin:]
        ]
        return ", ".join(sent) or "nothing sent"


@pytest.mark.parametrize("title", SESSIONS)
async def test_a_session_goes_as_it_is_written(
    tmp_path: Path,
    alpha: ScriptedUpstream,
    places: Places,
    caplog: pytest.LogCaptureFixture,
    title: str,
) -> None:
    player = Player(alpha, places.urls["alpha"], tmp_path, caplog)
    alpha.always(player.answer)
    try:
        await play_session(*SESSIONS[title], player.play)
    finally:
        await player.do_end()
        for way in player.ways:
            way.forwarder.close()
