"""gateway.toml read again while serving: what changes, for whom, and what cannot.

Sessions in `reloaded/`, also those of extras, have versions of the file, each with a price and a provider's key of its own:

    $ reload 7 {"limits": "…"}     write version 7, with other facts, and have it read; what is said of it
    $ complete                     a request: by which provider, connection, key and price it is served

Other commands are `do_…` below. To write the answers anew:

    WRITE_SESSION=1 python -m pytest tests/extras/reloads/test_reload.py && git diff
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from unittest import mock

import pytest

from gateway.api.state import make_gateway
from gateway.config.records import Config
from gateway.extras.reloads import asking
from gateway.extras.reloads.reloader import Reloader, reloading
from gateway.ledger.opening import open_books
from gateway.ledger.records import EventView
from tests import ROOT
from tests.extras.reloads.reloading import (
    COMPLETION,
    MODEL,
    PROMPT,
    Reloaded,
    Version,
    play_reloads,
    start,
)
from tests.ledger.kit import make_place
from tests.ledger.player import play_session, read_sessions
from tests.support import config, replies
from tests.support.chat import say
from tests.support.client import Call
from tests.support.process import GatewayProcess, free_port
from tests.support.settings import MODEL as MODEL_TOML
from tests.support.settings import OPENAI, load
from tests.support.upstream import ScriptedUpstream, Wait
from tests.support.waiting import until

USAGE: Final = replies.usage(PROMPT, COMPLETION)
HELLO: Final = replies.json_reply(replies.completion("Hello!", usage=USAGE))
STREAM: Final = replies.sse_reply(replies.stream_chunks(["Hel", "lo!"], USAGE))

SESSIONS: Final = read_sessions(*sorted(ROOT.glob("tests/extras/*/reloaded")))

Make = Callable[..., Version]


@pytest.fixture(scope="module")
def version(places: config.Places) -> Make:
    """Make versions of a file, with the provider `alpha` unless it says another place."""

    def make(number: int = 0, place: str = "alpha", key: int | None = None, **more: str) -> Version:
        port = int(places.urls[place].rpartition(":")[2].partition("/")[0])
        return Version(number, port=port, key=key, **more)

    return make


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory, version: Make) -> Iterator[Reloaded]:
    shared = start(tmp_path_factory.mktemp("reloaded"), version())
    yield shared
    if shared.gateway.process is not None and shared.gateway.process.poll() is None:
        shared.stop()


@pytest.fixture
async def one(shared: Reloaded, version: Make) -> Reloaded:
    """The gateway that all these tests use, with the first version of its file."""
    assert shared.gateway.process is not None
    if shared.gateway.process.poll() is not None:
        version().write(shared.gateway)
        shared.gateway.start()
    assert (await shared.reload(version())).ok
    return shared


@dataclass(slots=True)
class Player:
    """The gateway, the versions of its file, and a stream that is open."""

    one: Reloaded
    version: Make
    alpha: ScriptedUpstream
    beta: ScriptedUpstream
    stack: AsyncExitStack
    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    call: Call | None = None

    @property
    def gateway(self) -> GatewayProcess:
        return self.one.gateway

    async def play(self, line: str) -> str:
        verb, _, rest = line.partition(" ")
        do: Callable[[str], Awaitable[str]] = getattr(self, f"do_{verb}")
        told = (await do(rest)).replace(str(self.gateway.folder), "FOLDER")
        assert "upstream-secret" not in told
        return told

    def write(self, words: str) -> None:
        number, _, more = words.partition(" ")
        facts = json.loads(more.replace("SECRET", Version().secret) or "{}")
        port = free_port() if facts.pop("moves", False) else None
        self.version(int(number), **facts).write(self.gateway, port=port)

    async def do_reload(self, words: str) -> str:
        self.write(words)
        said = await asyncio.to_thread(self.one.ask)
        return said.words if said.ok else f"refused: {said.words}"

    async def do_command(self, words: str) -> str:
        """Reload by the command; tell its exit code and what it prints."""
        self.write(words)
        ran = await self.gateway.run("reload", "--json")
        if ran.out:
            assert f"Refused, nothing changed: {ran.json['words']}\n" == ran.err or ran.json["ok"]
        return f"{int(ran.code)} {ran.err.strip()}"

    async def do_cut(self, lines: str) -> str:
        """Reload with so many lines of the file, as a full disk leaves it."""
        text = self.gateway.config.read_text()
        self.gateway.config.write_text("\n".join(text.splitlines()[: int(lines)]))
        said = await asyncio.to_thread(self.one.ask)
        return said.words if said.ok else f"refused: {said.words}"

    async def do_complete(self, _: str) -> str:
        before = len(self.alpha.exchanges)
        reply = await self.gateway.chat(self.one.caller.key, say(MODEL))
        name = "alpha" if len(self.alpha.exchanges) > before else "beta"
        sent = self.alpha.last if name == "alpha" else self.beta.last
        key = int(sent.headers["authorization"].rpartition("-")[2])
        receipt = await self.gateway.ask(
            "GET", f"/v1/receipts/{reply.request_id}", key=self.one.caller.key
        )
        limit = reply.headers.get("x-ratelimit-limit-requests")
        return (
            f"{reply.status} by {name} on connection {sent.connection} with key {key},"
            f" price {await self.find_price(reply.request_id)} {receipt.json['currency']}"
            + f", {limit} a minute"
            * (limit is not None)
        )

    async def find_price(self, request_id: str) -> int:
        """Return the version whose price was charged."""
        nano = await self.one.books.charge_nano(request_id)
        (found,) = [number for number in range(9) if Version(number).cost_nano == nano]
        return found

    async def do_open(self, _: str) -> str:
        """Ask for a stream that stops after its first event."""
        self.alpha.play([*STREAM[:2], Wait(self.go_on), *STREAM[2:]])
        self.call = call = await self.stack.enter_async_context(self.gateway.connect())
        await call.send(self.one.write_call(stream=True))
        await call.read_head()
        await call.read_piece()
        return f"{call.status}"

    async def do_end(self, _: str) -> str:
        """Let the stream go on to its end; tell the price."""
        assert self.call is not None
        assert not self.alpha.last.closed.is_set(), "the stream needs its connection"
        self.go_on.set()
        reply = await self.call.read_all()
        assert reply.complete
        assert reply.body.endswith(replies.DONE)
        return f"whole, price {await self.find_price(self.call.headers['x-request-id'])}"

    async def do_closes(self, _: str) -> str:
        async with asyncio.timeout(10):
            await self.alpha.last.closed.wait()
        return ""

    async def do_event(self, action: str) -> str:
        """Tell the last event, of reloads if nothing is said."""
        with open_books(self.gateway.database) as books:
            event = books.find_last_event(action or asking.ACTION)
        assert event is not None
        return " ".join(filter(None, (event.actor, event.target, event.detail)))

    async def do_log(self, words: str) -> str:
        sought = words.replace("FOLDER", str(self.gateway.folder))
        await until(lambda: sought in self.gateway.log, words)
        return ""

    async def do_hangups(self, words: str) -> str:
        """Send so many signals, and write and read a version, which one of them may have read."""
        count, version = words.split()
        assert self.gateway.process is not None
        for _ in range(int(count)):
            self.gateway.process.send_signal(signal.SIGHUP)
        self.write(version)
        return "read" if (await asyncio.to_thread(self.one.ask)).ok else "refused"

    async def do_terminate(self, _: str) -> str:
        assert self.gateway.process is not None
        self.gateway.process.terminate()
        return ""

    async def do_exit(self, _: str) -> str:
        assert self.gateway.process is not None
        return str(await asyncio.to_thread(self.gateway.process.wait))


@pytest.mark.parametrize("title", SESSIONS)
async def test_a_session_goes_as_it_is_written(
    one: Reloaded, version: Make, alpha: ScriptedUpstream, beta: ScriptedUpstream, title: str
) -> None:
    for place in (alpha, beta):
        place.always(HELLO)
    async with AsyncExitStack() as stack:
        await play_session(*SESSIONS[title], Player(one, version, alpha, beta, stack).play)


@pytest.mark.slow
async def test_what_was_made_of_settings_at_the_start_goes_by_the_new_ones(
    one: Reloaded, version: Make, alpha: ScriptedUpstream
) -> None:
    alpha.always(HELLO)
    await one.reload(version(server='log = "json"\nkeep_alive_seconds = 0.4'))
    async with one.gateway.connect() as call:
        started = time.monotonic()
        await call.send(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        await call.read_head()
        await call.read_all()
        assert await call.read_to_close() == b""
        assert time.monotonic() - started < 5
    reply = await one.gateway.chat(one.caller.key, say(MODEL))
    await until(lambda: f'"request":"{reply.request_id}"' in one.gateway.log, "a line in JSON")


@pytest.mark.slow
async def test_a_signal_during_the_start_is_kept(one: Reloaded, version: Make) -> None:
    """It waits from the first line of the server until something catches it."""
    gateway, before = one.gateway, one.gateway.process
    one.stop()
    version().write(gateway)
    starting = asyncio.get_running_loop().create_task(asyncio.to_thread(gateway.start))
    await until(lambda: gateway.process is not before and blocks_hangup(gateway), "the server")
    assert gateway.process is not None
    gateway.process.send_signal(signal.SIGHUP)
    await starting
    await until(lambda: "is in force: nothing changed" in gateway.log, "the reload")


async def test_a_file_that_cannot_be_read_to_its_end_delays_no_stop(one: Reloaded) -> None:
    """As on a network disk that is dead."""
    gateway, path = one.gateway, one.gateway.config
    path.unlink()
    os.mkfifo(path)
    try:
        assert gateway.process is not None
        gateway.process.send_signal(signal.SIGHUP)
        with await asyncio.to_thread(path.open, "w"):  # it opens once the gateway reads it
            await asyncio.to_thread(one.stop)
    finally:
        path.unlink()


def blocks_hangup(gateway: GatewayProcess) -> bool:
    assert gateway.process is not None
    status = Path(f"/proc/{gateway.process.pid}/status").read_text()
    (blocked,) = re.findall(r"^SigBlk:\s*(\w+)$", status, re.MULTILINE)
    return bool(int(blocked, 16) & 1 << signal.SIGHUP - 1)


async def test_a_fault_of_the_gateway_changes_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It is logged with its traceback; neither it nor a ledger that is away ends the reloads."""

    def fail(*_: object) -> Config:
        raise RuntimeError("a bug")

    place, told = make_place(tmp_path), list[object]()
    config = load(tmp_path, OPENAI + MODEL_TOML)
    gateway = make_gateway(config, mock.Mock())
    gateway.reloaded.append(told.append)
    reloader = Reloader(gateway, asyncio.Event(), fail)
    running = asyncio.get_running_loop().create_task(reloader.run())
    for aside in (False, True):
        if aside:
            await until(lambda: find_reload(place.path), "the first event")
            place.path.rename(tmp_path / "aside")
        gateway.last_reload = None
        reloader.asked.set()
        await until(lambda: gateway.last_reload, "the result")
        assert gateway.last_reload is not None
        assert not gateway.last_reload.ok
    await until(lambda: "the reload is not in the log of events" in caplog.text, "the warning")
    assert caplog.text.count("RuntimeError: a bug") == 2
    assert (gateway.config, told) == (config, [])
    running.cancel()
    gateway.close()
    (tmp_path / "aside").rename(place.path)
    event = find_reload(place.path)
    assert event is not None
    assert event.detail == "the gateway failed to read the file: its log says how"


async def test_a_fault_behind_a_reload_ends_no_others(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(asking, "note", mock.Mock(side_effect=RuntimeError("a bug")))
    make_place(tmp_path)
    config = load(tmp_path, OPENAI + MODEL_TOML)
    gateway = make_gateway(config, mock.Mock())
    gateway.reloaded.append(mock.Mock(side_effect=ValueError("a bug")))
    reloader = Reloader(gateway, asyncio.Event(), lambda *_: config)
    running = asyncio.get_running_loop().create_task(reloader.run())
    for _ in range(2):
        caplog.clear()
        reloader.asked.set()
        await until(lambda: "RuntimeError: a bug" in caplog.text, "its traceback")
        assert "ValueError: a bug" in caplog.text
    running.cancel()
    gateway.close()


def find_reload(path: Path) -> EventView | None:
    with open_books(path) as books:
        return books.find_last_event(asking.ACTION)


@pytest.mark.slow
async def test_no_request_fails_and_no_charge_is_wrong_during_reloads(tmp_path: Path) -> None:
    """The long run has fifty of them, under 64 connections."""
    figures = await play_reloads(tmp_path, reloads=8, connections=16, seed=1)
    figures.check()
    assert figures.reloads == 8


@pytest.mark.usefixtures("signals")
async def test_a_signal_behind_the_end_does_not_end_the_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """By its default, had it for an instant only, the exit code of a clean stop would be lost."""
    monkeypatch.setattr(Reloader, "run", lambda _: asyncio.sleep(0))
    change = mock.Mock(wraps=signal.signal)
    monkeypatch.setattr(signal, "signal", change)
    async with reloading(mock.Mock()):
        assert signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN
        change.reset_mock()
    assert change.mock_calls == [mock.call(signal.SIGHUP, signal.SIG_IGN)]
