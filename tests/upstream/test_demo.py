"""The embedded provider: what callers do not see. The rest is in tests/api/played/demo.txt."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pytest

from gateway.base.errors import Overloaded
from gateway.upstream.demo import DemoForwarder, make_completion
from gateway.upstream.receivers import Wants
from tests.support.formats import EXCHANGES
from tests.support.records import make_provider
from tests.upstream.kit import Taker, TellingLife, make_attempt

PROVIDER: Final = make_provider(name="demo", dialect="demo")
Json = dict[str, Any]


def ask(content: Any = "one two  three", **fields: Any) -> Json:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": content}]
    return {"model": "echo", "messages": messages, **fields}


def test_an_answer_has_at_most_16_384_characters() -> None:
    (choice,) = make_completion(ask("x" * 16_385))["choices"]
    assert choice["message"]["content"] == "x" * 16_384


@dataclass(slots=True)
class Slow(Taker):
    """A receiver that asks to be waited for after each piece, which ends the attempt with `error`."""

    life: TellingLife = field(default_factory=TellingLife)
    error: Overloaded | None = None
    waits: int = 0

    def receive(self, data: bytes) -> Wants:
        self.pieces.append(data)
        return Wants.ROOM

    async def unblock(self) -> None:
        self.waits += 1
        if self.error is not None:
            await asyncio.sleep(0)
            self.life.ended_by = self.error


async def deliver(body: Json, taker: Slow) -> Slow:
    exchange = EXCHANGES["chat"]["demo"]
    attempt = make_attempt(PROVIDER, taker, orjson.dumps(body), exchange=exchange, life=taker.life)
    await DemoForwarder(PROVIDER).send(attempt)
    return taker


async def test_it_waits_for_a_slow_caller_and_ends_like_a_provider() -> None:
    taker = await deliver(ask(stream=True), Slow())
    assert taker.life.told == ["sent"]
    assert taker.waits == len(taker.pieces)
    assert taker.pieces[-1] == b"data: [DONE]\n\n"
    whole = await deliver(ask(), Slow())
    assert [orjson.loads(one)["object"] for one in whole.pieces] == ["chat.completion"]


async def test_it_stops_when_the_attempt_is_given_up() -> None:
    taker = Slow(error=Overloaded("stopping"))
    with pytest.raises(Overloaded):
        await deliver(ask(stream=True), taker)
    assert len(taker.pieces) == 1
