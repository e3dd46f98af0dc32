"""JSON replies that wait for their callers count against the budget for bodies."""

from __future__ import annotations

import asyncio
import contextlib
import json
from types import SimpleNamespace
from typing import Any, Final

import pytest
from aiohttp import HttpVersion11

from gateway.api.sink import PIECE_BYTES, JsonReply
from tests.api.test_memory import make_call, make_gateway
from tests.support.chat import check_error, say
from tests.support.client import request
from tests.support.process import CHAT, GatewayProcess
from tests.support.replies import completion, json_reply
from tests.support.running import Launch
from tests.support.seed import Seed
from tests.support.stage import Stage
from tests.support.upstream import ScriptedUpstream
from tests.support.waiting import until

MODEL: Final = "plain/0"
LARGE: Final = "x" * (16 << 20)
"""More than both ends of a connection buffer."""
HUGE: Final = "x" * (40 << 20)
"""More than both of them and an account's share take."""


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


async def test_over_its_share_only_an_accounts_own_replies_are_not_read(
    launch: Launch, alpha: ScriptedUpstream
) -> None:
    """Of two replies that nobody reads one is taken; once it is read, the other follows."""
    running = launch(seeds=(Seed("rich"), Seed("other")), server="max_bodies_mb = 32")
    gateway, key = running.gateway, running.callers["rich"].key
    (large,) = json_reply(completion(HUGE))
    assert isinstance(large, bytes)
    alpha.play(*[[large[at : at + 2**20] for at in range(0, len(large), 2**20)]] * 2)
    async with contextlib.AsyncExitStack() as stack:
        calls = [await stack.enter_async_context(gateway.chatting(key, say(MODEL))) for _ in "12"]
        await alpha.wait_for(2)
        exchanges = alpha.exchanges[:2]
        await until(lambda: any(one.played.is_set() for one in exchanges), "the first reply")
        alpha.always(json_reply(completion()))
        other = running.callers["other"].key
        assert (await gateway.chat(other, say(MODEL))).status == 200
        check_error(await gateway.chat(key, say(MODEL)), 429, "rate_limit_exceeded")
        assert [one.played.is_set() for one in exchanges].count(True) == 1
        replies = await asyncio.gather(*(call.read_all() for call in calls))
        assert all(len(one.body) > len(HUGE) for one in replies)
    await ask_until_served(gateway, key)


async def test_a_large_reply_waits_for_the_caller_after_each_piece() -> None:
    """A transport copies what it cannot send at once, so it gets no more than a piece."""
    played: list[int | str] = []

    async def wait() -> None:
        played.append("waited")

    transport = SimpleNamespace(write=lambda data: played.append(len(data)), is_closing=bool)
    asked: Any = SimpleNamespace(
        transport=transport,
        keep_alive=True,
        version=HttpVersion11,
        writer=SimpleNamespace(drain=wait),
    )
    call = make_call(make_gateway(4), 1)
    await JsonReply(call, b"a" * (2 * PIECE_BYTES + 1), {}).prepare(asked)
    assert played[1:] == [PIECE_BYTES, "waited", PIECE_BYTES, "waited", 1, "waited"]
    assert call.held_bytes == 0


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
