"""The embedded provider."""

from __future__ import annotations

import asyncio
import math
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
import pytest

from gateway.dialects.exchanges import EMBEDDINGS, EXCHANGES
from gateway.errors import BadRequest, Overloaded
from gateway.upstream.attempt import Attempt
from gateway.upstream.demo import (
    DIMENSIONS,
    GREETING,
    MAX_DIMENSIONS,
    DemoForwarder,
    iter_chunks,
    make_completion,
    make_vector,
)
from tests.support.embeddings import embed, round_trip, unpack
from tests.support.records import make_provider
from tests.support.rows import each_row
from tests.upstream.kit import Taker

PROVIDER: Final = make_provider(name="demo", dialect="demo")
Json = dict[str, Any]


def ask(content: Any = "one two  three", **fields: Any) -> Json:
    messages = [{"role": "system", "content": "be brief"}, {"role": "user", "content": content}]
    return {"model": "echo", "messages": messages, **fields}


def answer(body: Json) -> tuple[str, str, int]:
    """Return the text, the finish reason and the completion tokens."""
    reply = make_completion(body)
    choice = reply["choices"][0]
    return (
        choice["message"]["content"],
        choice["finish_reason"],
        reply["usage"]["completion_tokens"],
    )


@each_row(
    ("body", "expected"),
    [
        (ask(), ("one two  three", "stop", 3)),
        (ask(max_tokens=2), ("one two  ", "length", 2)),
        (ask(max_tokens=3), ("one two  three", "stop", 3)),
        (ask(max_tokens=9, max_completion_tokens=1), ("one ", "length", 1)),
        (ask(max_completion_tokens=0, max_tokens=9), ("", "length", 0)),
        (ask(stop="two"), ("one ", "stop", 1)),
        (ask(stop=["three", "", "two"]), ("one ", "stop", 1)),
        (ask([{"type": "text", "text": "a"}, {"type": "image_url"}, {"type": "text", "text": "b"}]), ("a b", "stop", 2)),
        (ask(" "), (GREETING, "stop", len(GREETING.split()))),
        (ask(None), (GREETING, "stop", len(GREETING.split()))),
        ({"model": "echo", "messages": []}, (GREETING, "stop", len(GREETING.split()))),
    ],
)  # fmt: skip
def test_the_users_last_words_come_back(body: Json, expected: tuple[str, str, int]) -> None:
    assert answer(body) == expected


def test_an_answer_has_at_most_16_384_characters() -> None:
    assert answer(ask("x" * 16_384))[0] == "x" * 16_384
    assert answer(ask("x" * 16_385))[0] == "x" * 16_384


def test_every_choice_is_counted() -> None:
    reply = make_completion(ask(n=2))
    assert [one["index"] for one in reply["choices"]] == [0, 1]
    assert reply["usage"] == {"prompt_tokens": 5, "completion_tokens": 6, "total_tokens": 11}


@each_row("n", [1, 2])
def test_a_stream_says_the_same(n: int) -> None:
    chunks = list(iter_chunks(ask(n=n, stream_options={"include_usage": True})))
    *said, usage = chunks
    for index in range(n):
        choices = [one["choices"][0] for one in said if one["choices"][0]["index"] == index]
        assert choices[0]["delta"] == {"role": "assistant", "content": ""}
        assert "".join(one["delta"].get("content", "") for one in choices) == "one two  three"
        assert [one["finish_reason"] for one in choices[-2:]] == [None, "stop"]
    assert (usage["choices"], usage["usage"]["completion_tokens"]) == ([], 3 * n)
    assert all("usage" not in one for one in iter_chunks(ask()))
    assert len({one["id"] for one in chunks}) == 1


@dataclass(slots=True)
class Slow(Taker):
    """A receiver that asks to be waited for after each piece, which ends the attempt with `error`."""

    attempt: Attempt = field(default_factory=lambda: Attempt(PROVIDER))
    error: Overloaded | None = None
    waits: int = 0

    def receive(self, data: bytes) -> bool:
        self.pieces.append(data)
        return False

    async def unblock(self) -> None:
        self.waits += 1
        if self.error is not None:
            await asyncio.sleep(0)
            self.attempt.fail(self.error)


async def deliver(body: Json, taker: Slow) -> Slow:
    exchange = EXCHANGES["chat"]["demo"]
    reply = await DemoForwarder(PROVIDER).open(exchange, orjson.dumps(body), {}, taker.attempt)
    await reply.deliver(taker)
    return taker


async def test_it_waits_for_a_slow_caller_and_ends_like_a_provider() -> None:
    sent: list[str] = []
    attempt = Attempt(PROVIDER, on_sent=lambda: sent.append("sent"))
    taker = await deliver(ask(stream=True), Slow(attempt=attempt))
    assert sent == ["sent"]
    assert taker.waits == len(taker.pieces)
    assert taker.pieces[-1] == b"data: [DONE]\n\n"
    whole = await deliver(ask(), Slow())
    assert [orjson.loads(one)["object"] for one in whole.pieces] == ["chat.completion"]


async def test_it_stops_when_the_attempt_is_given_up() -> None:
    taker = Slow(error=Overloaded("stopping"))
    with pytest.raises(Overloaded):
        await deliver(ask(stream=True), taker)
    assert len(taker.pieces) == 1


async def embed_here(value: object, told: list[str] | None = None, **fields: Any) -> Any:
    notes = [] if told is None else told
    attempt = Attempt(
        PROVIDER, on_sent=lambda: notes.append("sent"), on_refused=lambda: notes.append("refused")
    )
    body = orjson.dumps(embed("embed", value, **fields))
    taker = Taker()
    reply = await DemoForwarder(PROVIDER).open(EMBEDDINGS, body, {}, attempt)
    await reply.deliver(taker)
    return orjson.loads(taker.body)


@each_row("dimensions", [1, 2, DIMENSIONS, MAX_DIMENSIONS])
@each_row("text", ["", "Hello", "Grüße 🎉", [1, 2, 3]])
def test_a_vector_has_length_1_and_is_always_the_same(
    text: str | list[int], dimensions: int
) -> None:
    vector = make_vector(text, dimensions)
    assert len(vector) == dimensions
    assert math.isclose(math.hypot(*vector), 1.0)
    assert vector == make_vector(text, dimensions)
    assert make_vector("another", 64) != make_vector("yet another", 64)


@each_row(
    ("value", "count", "tokens"),
    [
        ("one two  three", 1, 3),
        (" ", 1, 1),
        (["one two", "three"], 2, 3),
        ([7, 8], 1, 2),
        ([[7, 8], [9]], 2, 3),
        (["x"] * 40, 40, 40),
    ],
)
async def test_every_input_gets_its_vector(value: Any, count: int, tokens: int) -> None:
    reply = await embed_here(value)
    assert [one["index"] for one in reply["data"]] == list(range(count))
    assert {len(one["embedding"]) for one in reply["data"]} == {DIMENSIONS}
    assert (reply["object"], reply["model"]) == ("list", "embed")
    assert reply["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


async def test_base64_holds_the_same_numbers() -> None:
    floats = await embed_here("Hello", dimensions=8, encoding_format="float")
    packed = await embed_here("Hello", dimensions=8, encoding_format="base64")
    (wanted,), (got,) = floats["data"], packed["data"]
    assert unpack(got["embedding"]) == round_trip(wanted["embedding"])


async def test_too_many_dimensions_are_refused() -> None:
    told: list[str] = []
    with pytest.raises(BadRequest, match="dimensions"):
        await embed_here("Hello", told, dimensions=MAX_DIMENSIONS + 1)
    assert told == ["sent", "refused"]
