"""Requests to a provider, by its keys and connections, played as they are written in `played/`.

    == the title of a session
    $ provider key-a key-b         a provider with these keys
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
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from gateway.base.deadlines import Life
from gateway.base.errors import GatewayError, UpstreamError
from gateway.config.records import Provider
from gateway.upstream.attempt import STALE_SECONDS
from gateway.upstream.forwarder import HttpForwarder
from tests.api.language import read_script
from tests.ledger.player import play_session, read_sessions
from tests.support.config import Places
from tests.support.records import make_provider
from tests.support.replies import completion, error_reply, json_reply
from tests.support.upstream import Exchange, Script, ScriptedUpstream, Wait
from tests.support.waiting import until
from tests.upstream.kit import Taker, Way

SESSIONS: Final = read_sessions(Path(__file__).with_name("played"))
ASK_SECONDS: Final = 8.0
"""Less than a request waits for a key at most."""


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
    opened: list[tuple[Taker, asyncio.Task[None]]] = field(default_factory=list)

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

    def close(self) -> None:
        for way in self.ways:
            way.forwarder.close()

    # ---- Commands ----------------------------------------------------------------------------------

    async def do_provider(self, *keys: str) -> str:
        self.make(make_provider(base_url=self.url, api_keys=keys))
        self.valid = set(keys)
        return ""

    def make(self, provider: Provider) -> None:
        before = self.ways[-1].forwarder.keys if self.ways else ()
        self.ways.append(Way(HttpForwarder(provider, before), self.scripted))

    async def do_ask(self, *words: str) -> str:
        """Ask; `5` at once."""
        before = len(self.scripted.exchanges)
        async with asyncio.timeout(ASK_SECONDS):
            count = int(words[0]) if words else 1
            ends = {*await asyncio.gather(*(self.ask() for _ in range(count)))}
        if words:
            return ", ".join(sorted(ends))
        return f"{self.list_sent(before)}: {', '.join(ends)}"

    async def do_left(self) -> str:
        """Ask for a caller who leaves meanwhile."""
        before = len(self.scripted.exchanges)
        life = Life()
        life.caller_gone = True
        end = await self.ask(life=life)
        return f"{self.list_sent(before)}: {end}"

    async def do_open(self) -> str:
        """Ask for one caller, and read the head of the reply."""
        taker = Taker(full=True)
        sending = self.way.begin(self.way.make_attempt(taker, find_affinity=lambda: "a"))
        await taker.asked.wait()
        self.opened.append((taker, sending))
        return ""

    async def do_close(self, number: str) -> str:
        """Take the reply that was opened."""
        taker, sending = self.opened[int(number) - 1]
        taker.room.set()
        await sending
        return ""

    async def do_leave(self) -> str:
        """Ask, and leave while the head of the reply is waited for; tell what is in flight till then."""
        before = len(self.scripted.exchanges)
        opening = self.way.begin(self.way.make_attempt())
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

    async def do_idle(self) -> str:
        """Leave two idle connections."""
        for _ in range(2):
            await self.do_open()
        for number in ("1", "2"):
            await self.do_close(number)
        self.opened.clear()
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
        player.close()
