"""The vectors of the embedded provider."""

from __future__ import annotations

import math

import orjson
import pytest

from gateway.base.errors import BadRequest
from gateway.extras.embeddings.demo import DIMENSIONS, MAX_DIMENSIONS, make_vector
from gateway.upstream.demo import DemoForwarder
from tests.support.embeddings import embed
from tests.support.formats import SERVICES
from tests.support.records import make_provider
from tests.support.rows import each_row
from tests.upstream.kit import TellingLife, make_attempt


@each_row("dimensions", [1, 2, DIMENSIONS, MAX_DIMENSIONS])
@each_row("text", ["", "Hello", "Grüße 🎉", [1, 2, 3]])
def test_a_vector_has_length_1(text: str | list[int], dimensions: int) -> None:
    vector = make_vector(text, dimensions)
    assert len(vector) == dimensions
    assert math.isclose(math.hypot(*vector), 1.0)


async def test_a_refusal_is_told_to_the_attempt() -> None:
    life = TellingLife()
    provider = make_provider(name="demo", dialect="demo")
    body = orjson.dumps(embed("embed", dimensions=MAX_DIMENSIONS + 1))
    attempt = make_attempt(provider, None, body, exchange=SERVICES["embeddings"], life=life)
    with pytest.raises(BadRequest, match="dimensions"):
        await DemoForwarder(provider).send(attempt)
    assert life.told == ["sent", "declined"]
