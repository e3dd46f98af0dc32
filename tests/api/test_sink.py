"""The caller's side of a reply: events, comments, JSON replies, slow callers."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest
from aiohttp import HttpVersion11, web
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http_writer import StreamWriter

from gateway.api.sink import JsonReply, StreamReply, StreamSink
from gateway.base.deadlines import Clock
from tests.api.test_shares import make_call, make_gateway
from tests.support import records
from tests.support.chat import check_error, say
from tests.support.client import request
from tests.support.process import CHAT, GatewayProcess
from tests.support.replies import completion, json_reply
from tests.support.rows import each_row, told_together
from tests.support.running import Launch
from tests.support.seed import Seed
from tests.support.stage import Stage
from tests.support.upstream import ScriptedUpstream

SMALL_BYTES, PIECE_BYTES = 64 << 10, 1 << 18

DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
COMMENT_SECONDS = 15.0
STALL_SECONDS = 60.0


class Transport(asyncio.Transport):
    """Takes all bytes at once, unless it is stuck; one that resets closes with the last event."""

    def __init__(self, *, stuck: bool, resets: bool) -> None:
        super().__init__()
        self.protocol = BaseProtocol(asyncio.get_running_loop())
        self.protocol.transport = self
        self.stuck, self.resets, self.aborted = stuck, resets, False
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(bytes(data))
        self.aborted |= self.resets and DONE in self.writes[-1]
        if self.stuck and not self.protocol.writing_paused:
            self.protocol.pause_writing()

    def abort(self) -> None:
        self.aborted = True

    def is_closing(self) -> bool:
        return self.aborted

    def get_write_buffer_size(self) -> int:
        return 700


class Request(SimpleNamespace):
    """The members of a request that a response uses."""

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        """Nothing: no signal of an application."""


def make_sink(transport: Transport) -> StreamSink:
    """Make the sink of a chunked response whose head was not sent yet."""
    writer = StreamWriter(transport.protocol, asyncio.get_running_loop())
    request = Request(
        protocol=transport.protocol,
        version=HttpVersion11,
        writer=writer,
        _payload_writer=writer,
        method="POST",
        keep_alive=True,
    )
    server = SimpleNamespace(comment_seconds=COMMENT_SECONDS, stall_seconds=STALL_SECONDS)
    gateway = SimpleNamespace(
        config=SimpleNamespace(server=server),
        ticker=SimpleNamespace(loop=asyncio.get_running_loop(), clock=Clock()),
        draining=False,
    )
    return StreamSink(
        cast("web.Request", request),
        StreamReply(),
        records.make_call(gateway=gateway),
        wait_admitted,
    )


def tick(sink: StreamSink, began: float, seconds: float, *, mid_event: bool = False) -> None:
    clock = sink.call.gateway.ticker.clock
    clock.now, clock.seconds = began + seconds, seconds
    sink.tick(mid_event=mid_event)


async def wait_admitted() -> None:
    """Wait until the request's row is committed."""


NAMES: Final = (
    (rb"HTTP/1.1 200 OK\r\n(.+\r\n)+\r\n", "head "),
    (re.escape(DONE), "done "),
    (re.escape(KEEP_ALIVE), "comment "),
    (rb"data: x+\n\n", "big "),
    (rb"data: (\w+)\n\n", r"\1 "),
    (rb"0\r\n\r\n$", " end"),
    (rb"[0-9a-f]+\r\n|\r\n", ""),
)
STEPS: Final = Path(__file__).with_name("sink.txt").read_text(encoding="utf-8")
"""Steps of a sink, and its writes; `wait`: it asks for a wait."""


async def play(steps: list[str]) -> str:
    transport = Transport(stuck="stuck" in steps, resets="resets" in steps)
    sink, told, now = make_sink(transport), [], asyncio.get_running_loop().time()
    simple: dict[str, Callable[[], None]] = {
        "end": lambda: sink.end(DONE),
        "abort": sink.abort,
        "due": lambda: setattr(sink, "_comment_due", 0.0),
        "stall": lambda: setattr(sink, "_stalled_since", 0.0),
        "lose": lambda: setattr(transport.protocol, "transport", None),
    }
    for step in steps:
        name, _, value = step.replace("+", "-").partition("-")
        if name == "send":
            said = value.replace("big", "x" * 2**20).encode()
            told += ["wait"] * (not sink.send(b"data: %b\n\n" % said))
        elif value:
            tick(sink, now, float(value), mid_event=name == "mid")
        elif name in simple:
            simple[name]()
        elif name in {"begin", "unblock"}:
            await getattr(sink, name)()
        for _ in range(5 * (name == "yield")):
            await asyncio.sleep(0)
        told += [f"[{name_write(one)}]" for one in transport.writes]
        transport.writes.clear()
    return " ".join([*told, *["lost"] * sink.lost, *["kept"] * bool(sink._pending)])


def name_write(data: bytes) -> str:
    text = data
    for pattern, name in NAMES:
        text = re.sub(pattern, name.encode(), text)
    return " ".join(text.decode().split())


async def test_a_sink_writes_what_is_due() -> None:
    with told_together() as row:
        for why, line in re.findall(r"# (.*)\n(.*)\n", STEPS):
            steps, _, expected = line.partition(" = ")
            with row(why):
                async with asyncio.timeout(30):
                    assert await play(steps.split()) == expected


@each_row("closes", [False, True])
async def test_who_waits_for_the_row_sends_one_head_and_none_behind_a_close(closes: bool) -> None:
    """A comment and the first event may wait for it together."""
    transport, admitted = Transport(stuck=False, resets=False), asyncio.Event()
    sink = make_sink(transport)

    async def wait() -> None:
        await admitted.wait()

    sink.wait_admitted = wait
    tick(sink, asyncio.get_running_loop().time(), COMMENT_SECONDS + 1)
    await asyncio.sleep(0)
    sink.send(b"data: 1\n\n")
    beginning = asyncio.ensure_future(sink.begin())  # noqa: TID251 - awaited below
    await asyncio.sleep(0)
    if closes:
        sink.close()
    admitted.set()
    (result,) = await asyncio.gather(beginning, return_exceptions=True)
    assert isinstance(result, ConnectionResetError) is closes
    written = b"".join(transport.writes)
    assert written.count(b"HTTP") == written.count(b"data: 1") == (not closes)


@each_row("stuck", [False, True])
async def test_bytes_are_unread_where_the_transport_asks_to_wait(stuck: bool) -> None:
    """A transport takes no more without asking than each connection may have."""
    sink = make_sink(Transport(stuck=stuck, resets=False))
    assert sink.unread_bytes == 0
    await sink.begin()
    sink.send(b"data: 1\n\n")
    assert sink.unread_bytes == 700 * stuck


MODEL: Final = "plain/0"
LARGE: Final = "x" * (16 << 20)
"""More than both ends of a connection buffer."""


async def ask_until_served(gateway: GatewayProcess, key: str) -> None:
    """The gateway notices only after the caller that a reply was read."""
    while (reply := await gateway.chat(key, say(MODEL))).status != 200:
        check_error(reply, 429, "rate_limit_exceeded")


async def test_an_unread_reply_takes_its_accounts_share(
    launch: Launch, alpha: ScriptedUpstream
) -> None:
    """Another account has its own share; what was read, or never will be, is given back."""
    running = launch(seeds=(Seed("rich"), Seed("other")), server="max_bodies_mb = 32")
    gateway = running.gateway
    own, other = (running.callers[name].key for name in ("rich", "other"))
    for leaves in (False, True):
        alpha.play(json_reply(completion(LARGE)))
        async with gateway.chatting(own, say(MODEL)) as call:
            await call.read_head()
            assert call.status == 200
            alpha.always(json_reply(completion()))
            check_error(await gateway.chat(own, say(MODEL)), 429, "rate_limit_exceeded")
            assert (await gateway.chat(other, say(MODEL))).status == 200
            if not leaves:
                assert len((await call.read_all()).body) > len(LARGE)
                await ask_until_served(gateway, own)
        await ask_until_served(gateway, own)


@pytest.mark.parametrize(
    ("size", "unread", "wanted"),
    [
        (
            2 * PIECE_BYTES + 1,
            0,
            ["waited", PIECE_BYTES, "waited", PIECE_BYTES, "waited", 1, "waited"],
        ),
        (9, SMALL_BYTES, []),
        (9, SMALL_BYTES + 1, ["waited"]),
    ],
)
async def test_a_reply_waits_until_the_caller_has_taken_what_is_before_it(
    size: int, unread: int, wanted: list[int | str]
) -> None:
    """A transport copies what it cannot send at once, and takes any number of pipelined replies."""
    played: list[int | str] = []
    call = make_call(make_gateway(4), 1)

    async def wait() -> None:
        assert call.buffered_bytes == max(size, unread)
        played.append("waited")

    transport = SimpleNamespace(
        write=lambda data: played.append(len(data)),
        is_closing=bool,
        get_write_buffer_size=lambda: unread,
    )
    asked: Any = SimpleNamespace(
        transport=transport,
        keep_alive=True,
        version=HttpVersion11,
        writer=SimpleNamespace(drain=wait),
    )
    await JsonReply(call, b"a" * size, {}).prepare(asked)
    assert played[1:] == wanted
    assert call.buffered_bytes == 0


@pytest.mark.parametrize(
    ("version", "asked", "told", "ends"),
    [
        ("1.1", None, None, False),
        ("1.1", "close", "close", True),
        ("1.0", None, None, True),
        ("1.0", "keep-alive", "keep-alive", False),
    ],
)
async def test_a_reply_says_whether_the_connection_goes_on(
    stage: Stage, version: str, asked: str | None, told: str | None, *, ends: bool
) -> None:
    stage.alpha.play(json_reply(completion()))
    headers = {"Authorization": f"Bearer {stage.key}", "Content-Type": "application/json"}
    headers |= {"Connection": asked} if asked else {}
    body = json.dumps(say(stage.fresh("plain"))).encode()
    sent = request("POST", CHAT, headers, body).replace(b"HTTP/1.1", f"HTTP/{version}".encode(), 1)
    async with stage.gateway.connect() as call:
        await call.send(sent)
        reply = await call.read_all()
        assert (reply.status, reply.headers.get("connection")) == (200, told)
        assert (reply.headers["server"], reply.headers["content-type"]) == (
            "gateway",
            "application/json",
        )
        if ends:
            assert await call.read_to_close() == b""
