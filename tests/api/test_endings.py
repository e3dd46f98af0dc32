"""Every way a request can end, and that none leaves anything behind.

For each: the provider's connection is closed, or kept if it can serve again; the hold is resolved,
the row has its outcome, the ledger its entries; and the log has one line. Callers of both dialects
use the same provider.

Other tests cover a stop (test_drain.py), a caller who reads nothing (test_slow.py), a ledger that
cannot be written, and a crash.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, Literal

import pytest

from tests.api.scene import ASKS, PATHS, at_most, read_all_settled, set_stage
from tests.support.chat import MAX_OUTPUT_TOKENS, NOTHING, SENT, Used, estimate
from tests.support.client import Call, Cut
from tests.support.config import Kind
from tests.support.replies import (
    DONE,
    LAST_CHUNK,
    chunk,
    chunked,
    completion,
    dumps,
    error_reply,
    head,
    json_reply,
    sse,
    sse_reply,
    sse_start,
    stream_chunks,
    stream_head,
    text_chunks,
)
from tests.support.stage import Stage
from tests.support.upstream import Drip, End, Exchange, Script, Step, Wait
from tests.support.waiting import until

PROMPT: Final = "Erzähl mir was."
PIECES: Final = ["Es war ", "einmal"]
TEXT: Final = "".join(PIECES)
BODY: Final = dumps(completion(TEXT))
REPORTED: Final = Used(11, 7)
DELIVERED: Final = Used(SENT, estimate(TEXT))
HOLD: Final = Used(SENT, MAX_OUTPUT_TOKENS)
"""Stands for what was held."""
BEGUN: Final = sse_start(text_chunks(PIECES, finish=None))
FINISHED: Final = sse_start(text_chunks(PIECES))
USAGE_AND_END: Final = (
    chunked(sse(stream_chunks([])[-1])),
    chunked(DONE),
    LAST_CHUNK,
)
UNFRAMED: Final = [stream_head(framing="close"), *map(sse, text_chunks(PIECES))]
"""A stream up to the finish, without chunks: the connection's end ends the body."""
UNFRAMED_USAGE: Final = sse(stream_chunks([])[-1])
ERROR: Final = {"error": {"message": "the model crashed", "type": "server_error", "code": "x"}}
CLOSED_SECONDS: Final = 10.0
"""Less than an idle connection is kept."""
NOTICED_SECONDS: Final = 0.25
"""Time for the gateway to notice that its caller left, which it checks ten times a second."""

Leaves = Literal["never", "before", "during", "finished"]
"""When the caller leaves: never, before a byte came, with the text, or with the finish."""
Write = Callable[[asyncio.Event], Script]


@dataclass(frozen=True, slots=True)
class Ending:
    """The provider's script, where it waits for the caller, and the expected result."""

    write: Write
    outcome: str
    status: int
    charge: Used = NOTHING
    kept: bool = False
    """Whether the provider's connection can serve again."""
    leaves: Leaves = "never"
    kind: str = "brisk"
    """The kind of the model."""


def play(*steps: bytes | End) -> Write:
    return lambda _: steps


def then(start: Sequence[Step], *steps: bytes | End) -> Write:
    """Begin a stream, and play these steps once the caller has seen the beginning."""
    return lambda seen: [*start, Wait(seen), *steps]


def reply(script: Script) -> Write:
    return lambda _: script


def late(script: Script) -> Write:
    """Play a reply that waits for the caller."""
    return lambda seen: [Wait(seen), *script]


HEAD: Final = head(200) + b"Content-Length: %d\r\n\r\n" % len(BODY)
BEFORE_ANY_BYTE: Final = {
    "refused by the provider": Ending(reply(error_reply(500)), "upstream_error", 502, kept=True),
    "rejected by the provider": Ending(reply(error_reply(400)), "rejected", 400, kept=True),
    "the provider closes": Ending(play(End.FIN), "upstream_error", 502),
    "the provider resets": Ending(play(End.RST), "upstream_error", 502),
    "the provider is no HTTP": Ending(play(b"\x00\x01\r\n\r\n"), "upstream_error", 502),
    "the provider is silent": Ending(play(End.HANG), "upstream_timeout", 502),
}
JSON: Final = BEFORE_ANY_BYTE | {
    "complete": Ending(
        reply(json_reply(completion(TEXT))), "complete", 200, REPORTED, kept=True
    ),
    "closed within the body": Ending(play(HEAD + BODY[:50], End.FIN), "upstream_error", 502),
    "reset within the body": Ending(play(HEAD + BODY[:50], End.RST), "upstream_error", 502),
    "silence within the body": Ending(play(HEAD + BODY[:50], End.HANG), "upstream_timeout", 502),
    "the caller leaves before the head": Ending(
        lambda gone: [Wait(gone), HEAD + BODY], "complete", 200, REPORTED, kept=True, leaves="before"
    ),
    "the caller leaves within the body": Ending(
        lambda gone: [HEAD + BODY[:50], Wait(gone), BODY[50:]],
        "complete", 200, REPORTED, kept=True, leaves="before",
    ),
    "refused once the caller left": Ending(
        late(error_reply(500)), "upstream_error", 502, kept=True, leaves="before", kind="drain"
    ),
    "rejected once the caller left": Ending(
        late(error_reply(400)), "rejected", 400, kept=True, leaves="before", kind="drain"
    ),
}  # fmt: skip
STREAM: Final = BEFORE_ANY_BYTE | {
    "complete": Ending(reply(sse_reply(stream_chunks(PIECES))), "complete", 200, REPORTED, kept=True),
    "closed before any event": Ending(play(stream_head(), End.FIN), "upstream_error", 502),
    "silence before any event": Ending(play(stream_head(), End.HANG), "upstream_timeout", 502),
    "the first event is an error": Ending(reply(sse_reply([ERROR])), "upstream_error", 502),
    "the caller leaves before any byte": Ending(
        play(End.HANG), "caller_left", 499, HOLD, leaves="before"
    ),
    "the caller leaves before any event": Ending(
        play(stream_head(), End.HANG), "caller_left", 499, HOLD, leaves="before"
    ),
    "closed": Ending(then(BEGUN, End.FIN), "upstream_error", 200, DELIVERED),
    "reset": Ending(then(BEGUN, End.RST), "upstream_error", 200, DELIVERED),
    "broken framing": Ending(then(BEGUN, b"zz\r\n"), "upstream_error", 200, DELIVERED),
    "silence": Ending(then(BEGUN, End.HANG), "upstream_timeout", 200, DELIVERED),
    "a clean end too soon": Ending(
        then(BEGUN, LAST_CHUNK), "upstream_error", 200, DELIVERED, kept=True
    ),
    "an error event": Ending(
        then(BEGUN, chunked(sse(ERROR)), LAST_CHUNK), "upstream_error", 200, DELIVERED
    ),
    "closed before any text": Ending(
        then(sse_start([chunk({"role": "assistant", "content": ""})]), End.FIN),
        "upstream_error", 200,
    ),
    "closed after the finish": Ending(then(FINISHED, End.FIN), "upstream_error", 200, DELIVERED),
    "complete, then reset": Ending(
        then([*UNFRAMED, UNFRAMED_USAGE], DONE, End.RST), "complete", 200, REPORTED
    ),
    "complete, closed without its last event": Ending(
        then([*UNFRAMED, UNFRAMED_USAGE], End.FIN), "complete", 200, REPORTED
    ),
    "reset after the finish": Ending(
        then([*UNFRAMED, UNFRAMED_USAGE], End.RST), "upstream_error", 200, REPORTED
    ),
    "the caller leaves": Ending(
        then(BEGUN, End.HANG), "caller_left", 200, HOLD, leaves="during"
    ),
    "the caller leaves after the finish": Ending(
        then(FINISHED, *USAGE_AND_END), "caller_left", 200, REPORTED, kept=True, leaves="finished"
    ),
    "the caller leaves and no usage comes": Ending(
        then(FINISHED, End.FIN), "caller_left", 200, DELIVERED, leaves="finished"
    ),
    "refused once the caller left": Ending(
        late(error_reply(500)), "caller_left", 499, kept=True, leaves="before", kind="drain"
    ),
    "rejected once the caller left": Ending(
        late(error_reply(400)), "caller_left", 499, kept=True, leaves="before", kind="drain"
    ),
    "an error event once the caller left": Ending(
        late(sse_reply([ERROR])), "caller_left", 499, leaves="before", kind="drain"
    ),
}  # fmt: skip
TABLE: Final = [
    pytest.param(caller, stream, ending, id=f"{caller} {'stream' if stream else 'json'}: {name}")
    for caller in ("chat", "messages")
    for stream, endings in ((False, JSON), (True, STREAM))
    for name, ending in endings.items()
]


async def follow(call: Call, ending: Ending, stage: Stage, seen: asyncio.Event) -> None:
    """Play the caller; set `seen` where the provider waits for it."""
    await stage.alpha.wait_for(1)
    if ending.leaves == "before":
        await asyncio.sleep(0.05)  # what the provider says at once is on its way; nothing tells
        call.reset()
        await asyncio.sleep(NOTICED_SECONDS)
        seen.set()
        return
    await call.read_head()
    body = b""
    try:
        while piece := await call.read_piece():
            body += piece
            if _has_come(body, ending):
                break
        else:
            return
        if ending.leaves != "never":
            call.reset()
            await asyncio.sleep(NOTICED_SECONDS)
        seen.set()
        while ending.leaves == "never" and await call.read_piece():
            pass
    except Cut:
        return


def _has_come(body: bytes, ending: Ending) -> bool:
    """Return whether the finish is in the bytes: the choice's end in chat, else the block's."""
    if ending.leaves == "finished":
        return b'"stop"' in body or b"content_block_stop" in body
    return (PIECES[-1].encode() if ending.charge.completion else b'"role"') in body


def find_ids(stage: Stage, model: str) -> list[str]:
    """Find the requests of a model, which no other test uses."""
    return [
        str(one) for (one,) in stage.books._all("SELECT id FROM requests WHERE model = ?", model)
    ]


async def check_connection(stage: Stage, exchange: Exchange, caller: str, model: str) -> None:
    """Check the connection: if it is kept, the next request uses it too."""
    stage.alpha.play(json_reply(completion()))
    answer = await stage.gateway.post(PATHS[caller], stage.key, ASKS[caller](model))
    assert answer.status == 200
    assert stage.alpha.last.connection == exchange.connection
    assert not exchange.closed.is_set()


async def check_log(stage: Stage, request_id: str, ending: Ending) -> None:
    await until(lambda: request_id in stage.gateway.log, "a line in the log")
    (line,) = [one for one in stage.gateway.log.splitlines() if request_id in one]
    assert f"outcome={ending.outcome} " in line
    assert f"status={ending.status} " in line


@pytest.mark.parametrize(("caller", "stream", "ending"), TABLE)
async def test_an_ending_leaves_nothing_behind(
    stage: Stage, caller: str, ending: Ending, *, stream: bool
) -> None:
    seen = asyncio.Event()
    model = stage.fresh(ending.kind)
    stage.alpha.play(ending.write(seen))
    body = ASKS[caller](model, PROMPT, stream=stream)
    async with stage.gateway.chatting(stage.key, body, PATHS[caller]) as call:
        await follow(call, ending, stage, seen)
        exchange = stage.alpha.exchanges[0]
        if not ending.kept:
            await asyncio.wait_for(exchange.closed.wait(), CLOSED_SECONDS)
    await until(lambda: find_ids(stage, model), "the request's row")
    (request_id,) = find_ids(stage, model)
    cost_nano = await stage.books.charge_nano(request_id)
    if ending.charge is HOLD:
        assert cost_nano == stage.books.hold_nano(request_id)
    else:
        assert cost_nano == ending.charge.of(exchange.body).cost_nano
    row = await stage.books.settled(request_id)
    assert row.outcome == ending.outcome
    assert row.state == ("posted" if cost_nano else "voided")
    await check_log(stage, request_id, ending)
    if ending.kept:
        await check_connection(stage, exchange, caller, model)


REFUSED: Final[dict[str, tuple[bytes, dict[str, str], int]]] = {
    "no JSON": (b"hello", {}, 400),
    "an unknown model": (b'{"model": "none", "messages": [{"role": "user"}]}', {}, 400),
    "no key": (b"{}", {"Authorization": "Bearer sk-ru-none"}, 401),
    "no JSON by its type": (b"{}", {"Content-Type": "text/plain"}, 415),
}


@pytest.mark.parametrize("caller", PATHS)
@pytest.mark.parametrize("name", REFUSED)
async def test_a_refusal_before_the_hold_leaves_a_line_in_the_log(
    stage: Stage, name: str, caller: str
) -> None:
    body, headers, status = REFUSED[name]
    sent = {"Content-Type": "application/json", "Authorization": f"Bearer {stage.key}"} | headers
    answer = await stage.gateway.ask("POST", PATHS[caller], headers=sent, body=body)
    assert answer.status == status
    assert stage.alpha.connections == 0
    assert stage.books.request(answer.request_id) is None
    await check_log(stage, answer.request_id, Ending(play(), "refused", status))


LEAVERS: Final = 200
LEAVERS_AT_ONCE: Final = 40
PIECE_SECONDS: Final = 0.003


async def test_callers_who_leave_at_any_instant_leave_nothing_behind() -> None:
    """The provider speaks for some 60 ms; each caller leaves at a random moment within 80 ms."""
    dice = random.Random(LEAVERS)
    async with set_stage(kinds={"plain": Kind(("alpha",), 1)}) as stage:
        steps = sse_reply(stream_chunks(["word "] * 20))
        stage.alpha.always([Drip([one], PIECE_SECONDS) for one in steps if isinstance(one, bytes)])

        async def leave(seconds: float) -> None:
            body = ASKS["chat"]("plain/0", PROMPT, stream=True)
            async with stage.gateway.chatting(stage.key, body) as call:
                await asyncio.sleep(seconds)
                call.reset()

        await at_most(
            LEAVERS_AT_ONCE, [partial(leave, dice.random() * 0.08) for _ in range(LEAVERS)]
        )
        await until(
            lambda: stage.alpha.in_flight == 0, "the provider to be let go", seconds=CLOSED_SECONDS
        )
        stage.running.prove_books()
        rows = read_all_settled(stage.books).values()
        assert {row.outcome for row in rows} <= {"complete", "caller_left"}
        assert all(row.charged_nano == row.cost_nano for row in rows)
