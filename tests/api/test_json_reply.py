"""JSON replies that wait for their callers count against the budget for bodies."""

from __future__ import annotations

import json
from typing import Final

import pytest

from tests.support.chat import check_error, say
from tests.support.client import request
from tests.support.process import CHAT, GatewayProcess
from tests.support.replies import completion, json_reply
from tests.support.running import Launch
from tests.support.seed import Seed
from tests.support.stage import Stage
from tests.support.upstream import ScriptedUpstream

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
