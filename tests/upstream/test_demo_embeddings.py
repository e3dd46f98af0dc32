"""The embedded provider's vectors: deterministic, of length 1, as many numbers as are asked for."""

from __future__ import annotations

import math
from typing import Any

import orjson
import pytest

from gateway.dialects.exchanges import EMBEDDINGS
from gateway.errors import BadRequest
from gateway.upstream.attempt import Attempt
from gateway.upstream.demo import DIMENSIONS, MAX_DIMENSIONS, DemoForwarder, make_vector
from tests.support.embeddings import embed, round_trip, unpack
from tests.support.records import make_provider
from tests.support.rows import each_row

PROVIDER = make_provider(name="demo", dialect="demo")


class Taker:
    """A receiver that keeps everything."""

    def __init__(self) -> None:
        self.data = b""

    def receive(self, data: bytes) -> bool:
        self.data += data
        return True

    async def unblock(self) -> None:
        return


async def answer(value: object, told: list[str] | None = None, **fields: Any) -> Any:
    notes = [] if told is None else told
    attempt = Attempt(
        PROVIDER,
        on_sent=lambda: notes.append("sent"),
        on_refused=lambda: notes.append("refused"),
    )
    body = orjson.dumps(embed("embed", value, **fields))
    taker = Taker()
    reply = await DemoForwarder(PROVIDER).open(EMBEDDINGS, body, {}, attempt)
    await reply.deliver(taker)
    return orjson.loads(taker.data)


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
    reply = await answer(value)
    assert [one["index"] for one in reply["data"]] == list(range(count))
    assert {len(one["embedding"]) for one in reply["data"]} == {DIMENSIONS}
    assert (reply["object"], reply["model"]) == ("list", "embed")
    assert reply["usage"] == {"prompt_tokens": tokens, "total_tokens": tokens}


async def test_base64_holds_the_same_numbers() -> None:
    floats = await answer("Hello", dimensions=8, encoding_format="float")
    packed = await answer("Hello", dimensions=8, encoding_format="base64")
    (wanted,), (got,) = floats["data"], packed["data"]
    assert unpack(got["embedding"]) == round_trip(wanted["embedding"])


async def test_too_many_dimensions_are_refused() -> None:
    told: list[str] = []
    with pytest.raises(BadRequest, match="dimensions"):
        await answer("Hello", told, dimensions=MAX_DIMENSIONS + 1)
    assert told == ["sent", "refused"]
