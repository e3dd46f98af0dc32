"""After a stream's end nothing reaches the caller, whatever its provider still sends."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Final

import pytest

from tests.api.scene import ASKS, PATHS
from tests.support import responses
from tests.support.chat import split_events
from tests.support.client import Call, Reply, request
from tests.support.messages import STOP, frame, read_events
from tests.support.pairs import Caller, Provider, each_pair
from tests.support.replies import DONE, LAST_CHUNK, chunk, chunked, dumps, sse, stream_head
from tests.support.stage import Stage
from tests.support.told import USED, Told
from tests.support.upstream import Step, Wait

JUNK: Final = "JUNK"
MORE_TEXT: Final = {
    "chat": sse(chunk({"content": JUNK})),
    "messages": frame(
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "text_delta", "text": JUNK},
        }
    ),
    "responses": responses.frame(
        {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": JUNK}
    ),
}
SECOND_END: Final = {
    "chat": DONE,
    "messages": frame(STOP),
    "responses": responses.frame(
        {"type": "response.completed", "response": responses.make_response()}
    ),
}


@dataclass(slots=True)
class Conversation:
    """One connection of a caller, which carries one stream after the other."""

    stage: Stage
    call: Call
    caller: str
    model: str

    async def stream(self, ended: asyncio.Event) -> Reply:
        """Ask for a stream; `ended` is set once all of it has come."""
        await self._send("POST", PATHS[self.caller], ASKS[self.caller](self.model, stream=True))
        await self.call.read_head()
        reply = await self.call.read_all()
        ended.set()
        return reply

    async def check_quiet(self) -> None:
        """Check that the next bytes of the connection are the reply to the next request."""
        await self._send("GET", "/v1/models", None)
        await self.call.read_head()
        assert (await self.call.read_all()).json["object"] == "list"

    async def _send(self, method: str, path: str, body: object) -> None:
        headers = {"Content-Type": "application/json", "x-api-key": self.stage.key}
        await self.call.send(request(method, path, headers, dumps(body) if body else None))


def check_end(reply: Reply, caller: str) -> None:
    """Check that there is one terminal event and that it is the last."""
    assert (reply.status, reply.complete) == (200, True)
    assert JUNK.encode() not in reply.body
    if caller == "chat":
        events = split_events(reply.body)
        assert (events[-1], events.count(b"[DONE]")) == (b"[DONE]", 1)
    elif caller == "messages":
        said = read_events(reply.body)
        assert (said[-1], said.count(STOP)) == (STOP, 1)
    else:
        kinds = [one["type"] for one in read_events(reply.body)]
        assert (kinds[-1], kinds.count("response.completed")) == ("response.completed", 1)


def list_junk(provider: Provider) -> list[bytes]:
    return [
        SECOND_END[provider.dialect],
        MORE_TEXT[provider.dialect],
        MORE_TEXT[provider.dialect] + SECOND_END[provider.dialect],
        provider.error_event(JUNK),
        b": " + JUNK.encode() + b"\n\n",
        b"data: " + JUNK.encode() + b"\n\n",
        JUNK.encode() + b"\x00\xff",
    ]


async def converse(
    stage: Stage, caller: Caller, provider: Provider, place: str, all_junk: list[bytes]
) -> None:
    model = stage.fresh(provider.kind)
    *events, last = provider.events(Told("Hello."))
    start: list[Step] = [stream_head(), *map(chunked, events)]
    async with stage.gateway.connect() as call:
        conversation = Conversation(stage, call, caller.dialect, model)
        for junk in all_junk:
            ended = asyncio.Event()
            tails: dict[str, list[Step]] = {
                "in the same piece": [chunked(last + junk), LAST_CHUNK],
                "at once": [chunked(last), chunked(junk), LAST_CHUNK],
                "once the caller has its end": [chunked(last), Wait(ended), chunked(junk), LAST_CHUNK],
                "at once, in no framing": [chunked(last), b"zz\r\n" + junk],
            }  # fmt: skip
            stage.alpha.play([*start, *tails[place]])
            reply = await conversation.stream(ended)
            check_end(reply, caller.dialect)
            assert await stage.charge_nano(reply) == USED.cost_nano
            assert (await stage.settled(reply)).outcome == "complete"
            await asyncio.wait_for(stage.alpha.last.played.wait(), 2)
            await conversation.check_quiet()


PLACES: Final = (
    "in the same piece",
    "at once",
    "once the caller has its end",
    "at once, in no framing",
)


@each_pair
@pytest.mark.parametrize("step", [len(PLACES), pytest.param(1, marks=pytest.mark.slow)])
async def test_nothing_reaches_the_caller_behind_the_end(
    stage: Stage, caller: Caller, provider: Provider, step: int
) -> None:
    """Each junk in each place is slow; a plain run has each junk in one."""
    for number, place in enumerate(PLACES):
        await converse(stage, caller, provider, place, list_junk(provider)[number % step :: step])
