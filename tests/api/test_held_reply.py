"""JSON replies that wait for their callers count against the budget for bodies."""

from __future__ import annotations

from typing import Final

from tests.support.chat import check_error, say
from tests.support.process import GatewayProcess
from tests.support.replies import completion, json_reply
from tests.support.running import Launch
from tests.support.seed import Seed
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
