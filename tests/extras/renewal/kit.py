"""A gateway with clouds whose keys end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final, cast

from gateway.extras.renewal.keys import EARLY_SECONDS, Renewal
from gateway.upstream.keys import ProviderKey
from tests.support import replies
from tests.support.config import Places
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, RESPONSES_PROVIDER, Provider
from tests.support.served import Served, open_served
from tests.support.upstream import Exchange, Script, ScriptedUpstream, Wait
from tests.support.waiting import until

CLOUDS: Final[dict[str, tuple[Provider, str, str, str]]] = {
    "cloud": (CHAT_PROVIDER, "chat", "", "chat/completions"),
    "google": (CHAT_PROVIDER, "chat", "/projects/p/locations/l/endpoints/openapi", "chat/completions"),
    "claude": (MESSAGES_PROVIDER, "vertex", "/projects/p/locations/l/publishers/anthropic", "models/claude-x@1:{way}"),
    "azure": (RESPONSES_PROVIDER, "responses", "/openai/v1", "responses"),
    "foundry": (MESSAGES_PROVIDER, "messages", "/anthropic/v1", "messages"),
}  # fmt: skip
"""The replies of each, its dialect, its place and the path there; its model is `m-` with its name."""
CONFIG: Final = """
[providers.{name}]
dialect = "{dialect}"
base_url = "{url}{place}"
api_key = "command:cat token"
[models."m-{name}"]
routes = ["{name}/claude-x@1"]
max_output_tokens = 1000
price = {{ input = 1, output = 2 }}
"""
TOKEN: Final = "eyJ-0123456789-"
"""Beginnings of clouds' tokens: they go out as such to a provider of messages, too."""
STREAM: Final = replies.sse_reply(replies.stream_chunks(["Hel", "lo!"], replies.usage(10, 5)))


def write_clouds(url: str) -> str:
    return "".join(
        CONFIG.format(name=name, dialect=dialect, url=url, place=place)
        for name, (_, dialect, place, _) in CLOUDS.items()
    )


class Cloud:
    """The scripted provider, a gateway that uses it, and the key that counts."""

    def __init__(self, served: Served, scripted: ScriptedUpstream, secret: str) -> None:
        self.served, self.scripted, self.secret = served, scripted, secret
        self.valid, self.name = f"{TOKEN}first", "cloud"
        self.reply = replies.json_reply(replies.completion("Hello!", usage=replies.usage(10, 5)))
        scripted.always(self._answer)

    @property
    def key(self) -> ProviderKey:
        (key,) = self.served.gateway.routes.providers[self.name].keys
        return key

    @property
    def used(self) -> list[str]:
        """The ends of the keys that were sent."""
        return [one.headers["authorization"].rpartition("-")[2] for one in self.scripted.exchanges]

    def issue(self, end: str) -> None:
        """Let another key count from now on, and have the command print it; the last one is old."""
        self.valid = TOKEN + end
        (self.served.folder / "token").write_text(self.valid)
        cast("Renewal", self.key.renewing)._began -= EARLY_SECONDS

    async def complete(self, *, stream: bool = False) -> bytes:
        reply = await self.served.complete(self.secret, model=f"m-{self.name}", stream=stream)
        assert reply.status == 200
        return reply.body

    async def open_stream(self) -> tuple[asyncio.Task[bytes], asyncio.Event]:
        """Begin a stream that stops in its middle until the event is set."""
        go_on, before = asyncio.Event(), len(self.scripted.exchanges)
        self.scripted.play([*STREAM[:2], Wait(go_on), *STREAM[2:]])
        task = asyncio.get_running_loop().create_task(self.complete(stream=True))
        await self.scripted.wait_for(before + 1)
        return task, go_on

    def _answer(self, exchange: Exchange) -> Script:
        if exchange.headers["authorization"] != f"Bearer {self.valid}":
            return replies.error_reply(401, "The access token expired.")
        return self.reply


@asynccontextmanager
async def open_cloud(
    folder: Path, scripted: ScriptedUpstream, places: Places, more: str = ""
) -> AsyncIterator[Cloud]:
    (folder / "token").write_text(f"{TOKEN}first")
    async with open_served(folder, more=write_clouds(places.urls["alpha"]) + more) as served:
        states = served.gateway.routes.providers.values()
        keys = [key for state in states for key in state.keys]
        await until(lambda: not any(key.is_lacking for key in keys), "the first keys")
        yield Cloud(served, scripted, await served.add_key())
