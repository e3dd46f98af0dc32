"""Everything at once for minutes: good requests, failing providers, leaving and hostile callers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from tests.api.hostile import answer, send_raw
from tests.api.mutations import mutate
from tests.api.scene import ASKS, PATHS, Vitals, set_stage
from tests.streams import get_stream
from tests.support.client import Cut
from tests.support.config import Kind
from tests.support.replies import LAST_CHUNK, chunked, stream_head
from tests.support.stage import Stage
from tests.support.upstream import End, Exchange, Script
from tests.support.waiting import until

WORKERS: Final = 40
SAMPLE_SECONDS: Final = 2.0
MORTALS: Final = 40
DEATH_SHARE: Final = 0.25
WHOLE: Final = 10**6
"""A size beyond the end of any stream."""
SOUND: Final = 2
KINDS: Final = {
    "chat": Kind(("alpha",), SOUND),
    "messages": Kind(("alpha",), SOUND, dialects=("messages",)),
    "mortal-chat": Kind(("alpha",), MORTALS),
    "mortal-messages": Kind(("alpha",), MORTALS, dialects=("messages",)),
}
SERVER: Final = "header_seconds = 2\nbody_idle_seconds = 1\nbody_total_seconds = 2"
MIB: Final = 2**20
DEATHS: Final = ("reset", "ended", "closed")
"""A reset; a clean last chunk; a close that ends a body without a length."""


@dataclass(slots=True)
class Soaked:
    """Numbers of requests, and samples of memory: (seconds, bytes, descriptors)."""

    counts: Counter[str] = field(default_factory=Counter)
    samples: list[tuple[float, int, int]] = field(default_factory=list)

    @property
    def growth_bytes(self) -> float:
        """Return the growth from the middle third, when caches are full, to the last."""
        third = len(self.samples) // 3
        middle, last = self.samples[third : 2 * third], self.samples[2 * third :]
        return _mean(last) - _mean(middle)

    def __str__(self) -> str:
        third = len(self.samples) // 3
        return (
            f"{self.counts.total()} requests: {dict(self.counts.most_common())}\n"
            f"RSS {self.samples[0][1] / MIB:.1f} MiB at start, {_mean(self.samples[third : 2 * third]) / MIB:.1f} "
            f"in the middle third, {_mean(self.samples[2 * third :]) / MIB:.1f} in the last; "
            f"at most {max(one[2] for one in self.samples)} descriptors"
        )


def _mean(samples: list[tuple[float, int, int]]) -> float:
    """Return the mean of the bytes."""
    return sum(size for _, size, _ in samples) / len(samples)


Act = Callable[[Stage, random.Random], Awaitable[str]]


def _ask(dice: random.Random, kind: str, count: int, prompt: str) -> tuple[str, dict[str, object]]:
    """Choose a caller's dialect, and a request for a model of either provider dialect."""
    caller = dice.choice(("chat", "messages"))
    model = f"{kind}{dice.choice(('chat', 'messages'))}/{dice.randrange(count)}"
    return caller, ASKS[caller](model, prompt, stream=dice.random() < 0.6)


async def do_well(stage: Stage, dice: random.Random) -> str:
    caller, body = _ask(dice, "", SOUND, "Say hello.")
    reply = await stage.gateway.post(PATHS[caller], stage.key, body)
    assert (reply.status, reply.complete) == (200, True), reply
    return "well"


async def do_die(stage: Stage, dice: random.Random) -> str:
    """Fail sometimes, but mostly succeed, so that the provider is not shut off for good."""
    offset = dice.randrange(2000) if dice.random() < DEATH_SHARE else WHOLE
    prompt = f"Play {dice.choice(DEATHS)} at {offset}."
    caller, body = _ask(dice, "mortal-", MORTALS, prompt)
    reply = await stage.gateway.post(PATHS[caller], stage.key, body | {"stream": True})
    assert reply.status in {200, 502, 503}, reply
    return f"mortal {reply.status}"


async def do_leave(stage: Stage, dice: random.Random) -> str:
    caller, body = _ask(dice, "", SOUND, "Say hello.")
    async with stage.gateway.chatting(stage.key, body, PATHS[caller]) as call:
        await asyncio.sleep(dice.random() * 0.01)
        if dice.random() < 0.5:
            with contextlib.suppress(Cut):
                await call.read_head()
                await call.read_piece()
        call.reset()
    return "left"


async def do_harm(stage: Stage, dice: random.Random) -> str:
    data = mutate(dice.randrange(2**32), 0, stage.key)
    came = await send_raw(stage, data, half_close=True)
    assert came is not None, data
    assert not came.startswith(b"HTTP/1.1 500"), data
    return "mutated"


ACTS: Final[tuple[Act, ...]] = (do_well, do_well, do_well, do_die, do_leave, do_harm)


def play(exchange: Exchange) -> Script:
    """Work, or send as many bytes of a stream as the prompt says, and end in its way."""
    found = re.search(rb"Play (\w+) at (\d+)\.", exchange.body)
    if found is None:
        return answer(exchange)
    name = "anthropic-text" if exchange.target.endswith("/messages") else "mistral-text"
    part = get_stream(name).body[: int(found[2])]
    match found[1]:
        case b"reset":
            return [stream_head(), chunked(part), End.RST]
        case b"ended":
            return [stream_head(), chunked(part), LAST_CHUNK]
        case _:
            return [stream_head(framing="close"), part, End.FIN]


async def play_soak(minutes: float, seed: int) -> Soaked:
    """Play the soak. Raises AssertionError if anything is left behind."""
    soaked = Soaked()
    until_time = time.monotonic() + 60 * minutes
    async with set_stage(kinds=KINDS, server=SERVER) as stage:
        stage.alpha.always(play)
        vitals = Vitals(stage.gateway)
        await do_well(stage, random.Random(seed))
        base = vitals.descriptors - len(stage.alpha._open)

        async def work(number: int) -> None:
            dice = random.Random(f"{seed}/{number}")
            while time.monotonic() < until_time:
                soaked.counts[await dice.choice(ACTS)(stage, dice)] += 1

        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                group.create_task(work(number))
            group.create_task(_sample(stage, vitals, soaked, until_time))
        await until(
            lambda: vitals.descriptors - len(stage.alpha._open) <= base + 4,
            "the descriptors to be closed",
        )
    return soaked


async def _sample(stage: Stage, vitals: Vitals, soaked: Soaked, until_time: float) -> None:
    started = time.monotonic()
    while (now := time.monotonic()) < until_time:
        soaked.samples.append((now - started, vitals.rss_bytes, vitals.descriptors))
        stage.alpha.exchanges.clear()
        await asyncio.sleep(SAMPLE_SECONDS)
