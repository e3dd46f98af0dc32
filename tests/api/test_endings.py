"""Every way a request can end, and that none leaves anything behind. The rows are in `endings`.

For each: the provider's connection is closed, or kept if it can serve again; the hold is resolved,
the row has its outcome, the ledger its entries; the caller got its last bytes; and the log has one
line. Callers of both dialects use the same provider.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest

from tests.api.endings import GATEWAY, HOLD, JSON, PIECES, PROMPT, STREAM, Ending, check_last
from tests.api.in_flight import HAPPENINGS, find_prompt, in_flight, nothing, open_scene
from tests.api.scene import ASKS, CLOSED_SECONDS, PATHS
from tests.support.books import Books
from tests.support.client import Call, Cut, Reply
from tests.support.config import Places
from tests.support.replies import completion, json_reply
from tests.support.stage import Stage
from tests.support.upstream import Exchange, Script, ScriptedUpstream
from tests.support.waiting import until

NOTICED_SECONDS: Final = 0.15
"""Time in which a gateway that runs looks once more whether callers have left."""
PLAIN: Final = {
    "interim replies without end",
    "silence within the body",
    "silence",
    "the caller leaves before any byte",
}
"""The endings that wait for real time and that a plain run plays nevertheless."""
TABLE: Final = [
    pytest.param(
        stream,
        ending,
        id=f"{'stream' if stream else 'json'}: {name}",
        marks=[pytest.mark.slow] if ending.waits and name not in PLAIN else [],
    )
    for stream, endings in ((False, JSON), (True, STREAM))
    for name, ending in endings.items()
]


@dataclass(frozen=True, slots=True)
class Case:
    """One caller of a row. Its model is of a provider that nobody else uses."""

    stage: Stage
    scripts: dict[str, Script]
    """The provider's plays, by the prompt."""
    caller: str
    model: str

    @property
    def prompt(self) -> str:
        return f"{PROMPT} {self.model}"

    async def find_exchange(self, prompt: str) -> Exchange:
        def find() -> list[Exchange]:
            return [one for one in self.stage.alpha.exchanges if find_prompt(one) == prompt]

        await until(find, "the request at the provider")
        (exchange,) = find()
        return exchange


async def follow(case: Case, call: Call, ending: Ending, seen: asyncio.Event) -> Reply:
    """Play the caller; set `seen` where the provider waits for it. Return what the caller got."""
    reply = Reply(0, {}, complete=False)
    if ending.leaves == "before":
        await asyncio.sleep(0.05)  # what the provider says at once is on its way; nothing tells
        await leave(case, call, seen)
        return reply
    await call.read_head()
    reply.status, reply.headers = call.status, call.headers
    try:
        while piece := await call.read_piece():
            reply.body += piece
            if not seen.is_set() and _has_come(reply.body, ending):
                if ending.leaves != "never":
                    await leave(case, call, seen)
                    return reply
                seen.set()
        reply.complete = True
    except Cut:
        pass
    return reply


async def leave(case: Case, call: Call, seen: asyncio.Event) -> None:
    """Leave, and set `seen` once the gateway has noticed.

    What it answers shows that it ran meanwhile, however busy the machine is: it has read the reset, then looked.
    """
    call.reset()
    for _ in range(2):
        await asyncio.sleep(NOTICED_SECONDS)
        await case.stage.gateway.ask("GET", "/healthz")
    seen.set()


FINISHES: Final = (b'"stop"', b"content_block_stop", b"response.output_item.done")


def _has_come(body: bytes, ending: Ending) -> bool:
    """Return whether the finish is in the bytes: the choice's end in chat, else the block's."""
    if ending.leaves == "finished":
        return any(one in body for one in FINISHES)
    text_has_come = ending.charge.completion or ending.leaves == "during"
    begins = (PIECES[-1].encode(),) if text_has_come else (b'"role"', b"response.created")
    return any(one in body for one in begins)


def find_ids(books: Books, model: str) -> list[str]:
    """Find the requests of a model, which no other test uses."""
    return [str(one) for (one,) in books._all("SELECT id FROM requests WHERE model = ?", model)]


async def check_connection(case: Case, exchange: Exchange) -> None:
    """Check the connection: if it is kept, the next request uses it too."""
    prompt = f"Once more, {case.model}"
    case.scripts[prompt] = json_reply(completion())
    body = ASKS[case.caller](case.model, prompt)
    answer = await case.stage.gateway.post(PATHS[case.caller], case.stage.key, body)
    assert answer.status == 200
    assert (await case.find_exchange(prompt)).connection == exchange.connection
    assert not exchange.closed.is_set()


async def check_log(stage: Stage, request_id: str, ending: Ending) -> None:
    await until(lambda: request_id in stage.gateway.log, "a line in the log")
    (line,) = [one for one in stage.gateway.log.splitlines() if request_id in one]
    assert f"outcome={ending.outcome} " in line
    assert f"status={ending.status} " in line


async def check_row(books: Books, model: str, ending: Ending, exchange: Exchange | None) -> str:
    """Check the request's row, and that the entries are what it says; return its id."""
    await until(lambda: find_ids(books, model), "the request's row")
    (request_id,) = find_ids(books, model)
    cost_nano = await books.charge_nano(request_id)
    assert exchange is not None
    if ending.charge is not HOLD:
        assert cost_nano == ending.charge.of(exchange.body).cost_nano
    else:
        assert cost_nano == books.hold_nano(request_id)
    row = await books.settled(request_id)
    ((status,),) = books._all("SELECT status FROM requests WHERE id = ?", request_id)
    assert (row.outcome, status) == (ending.outcome, ending.status)
    assert row.state == ("posted" if cost_nano else "voided")
    return request_id


@pytest.mark.parametrize(("stream", "ending"), TABLE)
async def test_an_ending_leaves_nothing_behind(
    stage: Stage, ending: Ending, *, stream: bool
) -> None:
    """Callers of both dialects wait beside each other."""
    scripts: dict[str, Script] = {}
    stage.alpha.always(lambda exchange: scripts[find_prompt(exchange)])
    cases = [Case(stage, scripts, caller, stage.fresh(ending.kind)) for caller in PATHS]
    await asyncio.gather(*(play_ending(case, ending, stream=stream) for case in cases))


async def play_ending(case: Case, ending: Ending, *, stream: bool) -> None:
    stage, caller, model, seen = case.stage, case.caller, case.model, asyncio.Event()
    case.scripts[case.prompt] = ending.write(seen)
    body = ASKS[caller](model, case.prompt, stream=stream)
    async with stage.gateway.chatting(stage.key, body, PATHS[caller]) as call:
        exchange = await case.find_exchange(case.prompt)
        reply = await follow(case, call, ending, seen)
        if not ending.kept:
            await asyncio.wait_for(exchange.closed.wait(), CLOSED_SECONDS)
    check_last(reply, ending, caller, model, stream=stream)
    request_id = await check_row(stage.books, model, ending, exchange)
    await check_log(stage, request_id, ending)
    if ending.kept:
        await check_connection(case, exchange)


WHOLE_PROCESSES: Final = {
    "a kill and a new start",
    "a second signal ends the drain",
    "the drain ends",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(one, marks=[pytest.mark.slow] * (one in WHOLE_PROCESSES)) for one in HAPPENINGS],
)
async def test_what_happens_to_the_gateway_leaves_nothing_behind(
    tmp_path: Path, places: Places, alpha: ScriptedUpstream, name: str
) -> None:
    """All forms of requests are in flight at once."""
    happening = HAPPENINGS[name]
    async with open_scene(happening, tmp_path, places, alpha) as scene:
        await happening.before(scene)
        read = happening.before is nothing
        async with in_flight(scene, GATEWAY[name], read=read) as requests:
            await happening.during(scene)
            await asyncio.gather(*(one.end() for one in requests))
            for one in requests:
                check_last(one.reply, one.ending, one.caller, one.model, stream=one.stream)
                await check_exchange(one.exchange, one.ending)
            await happening.after(scene)
            for one in requests:
                request_id = await check_row(scene.books, one.model, one.ending, one.exchange)
                if scene.process is not None and one.ending.outcome != "interrupted":
                    assert scene.process.log.count(request_id) == 1


async def check_exchange(exchange: Exchange | None, ending: Ending) -> None:
    assert exchange is not None
    if ending.kept:
        assert not exchange.closed.is_set()
    else:
        await asyncio.wait_for(exchange.closed.wait(), CLOSED_SECONDS)
