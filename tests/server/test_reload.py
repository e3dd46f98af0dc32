"""gateway.toml read again while serving: what changes, for whom, and what cannot."""

from __future__ import annotations

import asyncio
import re
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, cast

import pytest

from gateway.admin import observations as asking
from gateway.api.state import make_gateway
from gateway.config.records import Config
from gateway.ledger.opening import open_books
from gateway.ledger.records import EventView
from gateway.process import ExitCode
from gateway.server import reload
from gateway.server.reload import Reloader
from tests.ledger.kit import make_place
from tests.server.reloading import COMPLETION, MODEL, PROMPT, Reloaded, Version, play_reloads, start
from tests.support import config, replies
from tests.support.chat import say
from tests.support.client import Call, Reply
from tests.support.process import GatewayProcess, free_port
from tests.support.settings import MODEL as MODEL_TOML
from tests.support.settings import OPENAI, load
from tests.support.upstream import Script, ScriptedUpstream, Wait
from tests.support.waiting import until

USAGE: Final = replies.usage(PROMPT, COMPLETION)
HELLO: Final = replies.json_reply(replies.completion("Hello!", usage=USAGE))
STREAM: Final = replies.sse_reply(replies.stream_chunks(["Hel", "lo!"], USAGE))

Make = Callable[..., Version]


@pytest.fixture(scope="module")
def version(places: config.Places) -> Make:
    """Make versions of a file, with the provider `alpha` unless it says another place."""

    def make(number: int = 0, place: str = "alpha", **more: str) -> Version:
        port = int(places.urls[place].rpartition(":")[2].partition("/")[0])
        return Version(number, port=port, **more)

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


async def complete(one: Reloaded) -> Reply:
    return await one.gateway.chat(one.caller.key, say(MODEL))


async def charge_nano(one: Reloaded, request_id: str) -> int:
    return await one.books.charge_nano(request_id)


def held(go_on: asyncio.Event) -> Script:
    """Make a stream that stops after its first event until the test lets it go on."""
    return [*STREAM[:2], Wait(go_on), *STREAM[2:]]


async def open_stream(one: Reloaded, call: Call) -> str:
    """Ask for a stream, read its first event and return the request's id."""
    await call.send(one.write_call(stream=True))
    await call.read_head()
    assert call.status == 200
    await call.read_piece()
    return call.headers["x-request-id"]


async def end_stream(call: Call) -> None:
    reply = await call.read_all()
    assert reply.complete
    assert reply.body.endswith(replies.DONE)


def read_events(one: Reloaded, count: int = 1) -> list[tuple[str, str]]:
    """Return the last events of reloads."""
    with open_books(one.gateway.database) as books:
        events = books.events.read_page(asking.ACTION, None, count)
        return [(event.actor, event.detail) for event in reversed(events)]


async def test_a_price_counts_from_the_next_request_on(
    one: Reloaded, version: Make, alpha: ScriptedUpstream
) -> None:
    go_on = asyncio.Event()
    alpha.play(held(go_on), HELLO)
    async with one.gateway.connect() as call:
        old = await open_stream(one, call)
        said = await one.reload(version(7))
        assert said.ok
        assert said.words == f"models: 1 changed ({MODEL}); providers: 1 changed (vendor)"
        new = await complete(one)
        assert await charge_nano(one, new.request_id) == version(7).cost_nano
        go_on.set()
        await end_stream(call)
    assert await charge_nano(one, old) == version(0).cost_nano != version(7).cost_nano
    assert read_events(one) == [("system", f"ok; {said.words}")]
    with open_books(one.gateway.database) as books:
        changed = books.events.find_last(reload.PRICE_CHANGE)
    assert changed is not None
    assert (changed.target, changed.detail) == (
        MODEL,
        "input 1.00 → 1.007, cached_input 1.00 → 1.007, cache_write 1.00 → 1.007, cache_write_1h 1.60 → 1.6112",
    )
    assert f"{one.gateway.config} is in force: {said.words}" in one.gateway.log


async def test_a_provider_that_is_gone_ends_its_stream_and_keeps_no_connection(
    one: Reloaded, version: Make, alpha: ScriptedUpstream, beta: ScriptedUpstream
) -> None:
    go_on = asyncio.Event()
    alpha.play(HELLO, held(go_on))
    beta.play(HELLO)
    await complete(one)
    async with one.gateway.connect() as call:
        await open_stream(one, call)
        assert (await one.reload(version(1, "beta", provider="other"))).ok
        assert (await complete(one)).status == 200
        assert len(beta.exchanges) == 1
        assert not alpha.last.closed.is_set(), "the stream needs its connection"
        go_on.set()
        await end_stream(call)
    async with asyncio.timeout(10):
        await alpha.last.closed.wait()


async def test_a_key_in_a_file_is_read_again(
    one: Reloaded, version: Make, alpha: ScriptedUpstream
) -> None:
    alpha.always(HELLO)
    for number in (0, 1):
        await one.reload(version(number))
        await complete(one)
        assert alpha.last.headers["authorization"] == f"Bearer {version(number).secret}"
    assert read_events(one, 2)[0] == ("system", "ok; nothing changed")


async def test_the_same_provider_keeps_its_connection(
    one: Reloaded, version: Make, alpha: ScriptedUpstream
) -> None:
    alpha.always(HELLO)
    await complete(one)
    assert (await one.reload(version(limits="requests_per_minute = 9"))).words == "[limits] changed"
    reply = await complete(one)
    assert reply.headers["x-ratelimit-limit-requests"] == "9", "for keys that were used before too"
    assert alpha.connections == 1


@pytest.mark.parametrize(
    ("broken", "told"),
    [
        ("[models.reloaded.x", "is not valid TOML"),
        ("[providers.more]\ndialect = 'chat'\nbase_url = 7", "[providers.more] base_url: must be"),
        (
            "[models.x]\nroutes = ['nobody/x']\nprice = 'free'\n[models.y]\nprice = 'free'",
            '[models."x"] routes: there is no [providers.nobody]',
        ),
        (f"[providers.x]\napi_key = '{Version().secret}", "is not valid TOML"),
    ],
)
async def test_a_bad_file_changes_nothing_and_says_why(
    one: Reloaded, version: Make, alpha: ScriptedUpstream, broken: str, told: str
) -> None:
    """By the exit code, in the log and as an event; no secret is told."""
    alpha.always(HELLO)
    version(5, tables=broken, limits="requests_per_minute = 9").write(one.gateway)
    ran = await one.gateway.run("reload", "--json")
    assert (ran.code, ran.json["ok"]) == (ExitCode.CONFIG, False)
    assert told in ran.json["words"]
    assert ran.err == f"Refused, nothing changed: {ran.json['words']}\n"
    refused = f"the reload is refused and nothing changed: {ran.json['words']}"
    await until(lambda: refused in one.gateway.log, "the line")
    assert read_events(one) == [("system", ran.json["words"])]
    reply = await complete(one)
    assert "upstream-secret" not in ran.out + ran.err
    assert "x-ratelimit-limit-requests" not in reply.headers
    assert await charge_nano(one, reply.request_id) == version(0).cost_nano
    version(5).write(one.gateway)
    ran = await one.gateway.run("reload")
    assert (ran.code, ran.out) == (ExitCode.OK, "")
    assert ran.err.startswith("models: 1 changed")


async def test_what_a_restart_takes_is_named_and_the_rest_is_in_force(
    one: Reloaded, version: Make, alpha: ScriptedUpstream
) -> None:
    alpha.always(HELLO)
    changed = version(3, currency="EUR")
    changed.write(one.gateway, port=free_port())
    said = await asyncio.to_thread(one.ask)
    assert said.ok
    assert said.words.endswith("; a restart is needed for: server.port, billing.currency")
    named = "a restart is needed for: server.port, billing.currency"
    await until(lambda: named in one.gateway.log, "the line")
    reply = await complete(one)
    assert await charge_nano(one, reply.request_id) == changed.cost_nano
    receipt = await one.gateway.ask("GET", f"/v1/receipts/{reply.request_id}", key=one.caller.key)
    assert receipt.json["currency"] == "USD"


@pytest.mark.slow
async def test_what_was_made_of_settings_at_the_start_goes_by_the_new_ones(
    one: Reloaded, version: Make, alpha: ScriptedUpstream
) -> None:
    alpha.always(HELLO)
    await one.reload(version(server='log = "json"\nheader_seconds = 0.4'))
    async with one.gateway.connect() as call:
        started = time.monotonic()
        await call.send(b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
        await call.read_head()
        await call.read_all()
        assert await call.read_to_close() == b""
        assert time.monotonic() - started < 5
    reply = await complete(one)
    await until(lambda: f'"request":"{reply.request_id}"' in one.gateway.log, "a line in JSON")


async def test_no_signal_is_lost_and_none_ends_the_process(one: Reloaded, version: Make) -> None:
    assert one.gateway.process is not None
    version(1).write(one.gateway)
    for _ in range(50):
        one.gateway.process.send_signal(signal.SIGHUP)
    version(2).write(one.gateway)
    said = await asyncio.to_thread(one.ask)
    assert said.ok
    assert (await one.reload(version(2))).words == "nothing changed"


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
    gateway = make_gateway(config, cast("Any", None))
    reloader = Reloader(gateway, (told.append,), asyncio.Event(), fail)
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


def find_reload(path: Path) -> EventView | None:
    with open_books(path) as books:
        return books.events.find_last(asking.ACTION)


async def test_a_stop_is_not_kept_up_by_a_reload(
    one: Reloaded, version: Make, alpha: ScriptedUpstream
) -> None:
    go_on = asyncio.Event()
    alpha.play(held(go_on))
    async with one.gateway.connect() as call:
        await open_stream(one, call)
        assert one.gateway.process is not None
        one.gateway.process.send_signal(signal.SIGTERM)
        await until(lambda: "stopping: 1 requests in flight" in one.gateway.log, "the drain")
        assert (await one.reload(version(4))).ok
        go_on.set()
        await end_stream(call)
    assert one.gateway.process.wait() == 0


async def test_nothing_is_asked_where_nothing_serves(one: Reloaded, version: Make) -> None:
    one.stop()
    version().write(one.gateway)
    ran = await one.gateway.run("reload")
    assert ran.code == ExitCode.UNAVAILABLE
    assert "No gateway serves from" in ran.err


@pytest.mark.slow
async def test_no_request_fails_and_no_charge_is_wrong_during_reloads(tmp_path: Path) -> None:
    """The long run has fifty of them, under 64 connections."""
    figures = await play_reloads(tmp_path, reloads=8, connections=16, seed=1)
    figures.check()
    assert figures.reloads == 8
