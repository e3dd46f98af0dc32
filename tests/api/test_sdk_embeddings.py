"""The real `openai` package asks for embeddings, changed only in base address and key."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator

import openai
import pytest

from tests.support.chat import Used
from tests.support.embeddings import VECTORS, embeddings, round_trip
from tests.support.replies import error_reply, json_reply
from tests.support.rows import each_row
from tests.support.stage import Stage


@pytest.fixture
async def client(stage: Stage) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=stage.gateway.base_url, api_key=stage.key, max_retries=0
    ) as one:
        yield one


@each_row("kind", ["embed", "embed-floats"])
async def test_a_caller_who_says_nothing_gets_floats(
    stage: Stage, client: openai.AsyncOpenAI, kind: str
) -> None:
    """The package asks for base64 then, whatever the provider can."""
    model = stage.fresh(kind)
    stage.alpha.play(json_reply(embeddings(packed=kind == "embed")))
    made = await client.embeddings.create(model=model, input=["one", "two"])
    sent = stage.alpha.last.json
    assert sent["encoding_format"] == ("base64" if kind == "embed" else "float")
    assert [tuple(one.embedding) for one in made.data] == [*map(round_trip, VECTORS)]
    assert [one.index for one in made.data] == [0, 1]
    assert (made.model, made.usage.prompt_tokens, made.usage.total_tokens) == (model, 11, 11)


@each_row("value", ["one", [1, 2], [[1, 2], [3]]])
async def test_floats_and_tokens(
    stage: Stage, client: openai.AsyncOpenAI, value: str | list[int] | list[list[int]]
) -> None:
    stage.alpha.play(json_reply(embeddings()))
    raw = await client.embeddings.with_raw_response.create(
        model=stage.fresh("embed"), input=value, encoding_format="float", dimensions=3, user="u"
    )
    made = raw.parse()
    assert [tuple(one.embedding) for one in made.data] == [*VECTORS]
    sent = stage.alpha.last.json
    assert (sent["input"], sent["dimensions"], sent["user"]) == (value, 3, "u")
    charged = await stage.books.charge_nano(raw.headers["x-request-id"])
    assert charged == Used(11, 0).cost_nano


async def test_errors_raise(stage: Stage, client: openai.AsyncOpenAI) -> None:
    model = stage.fresh("embed")
    stage.alpha.play(
        error_reply(400, "too long", code="x"), json_reply({"error": {"message": "no"}})
    )
    with pytest.raises(openai.BadRequestError, match="too long"):
        await client.embeddings.create(model=model, input="a")
    with pytest.raises(openai.InternalServerError, match="no"):
        await client.embeddings.create(model=model, input="a")
    with pytest.raises(openai.BadRequestError, match="makes no embeddings"):
        await client.embeddings.create(model=stage.fresh("plain"), input="a")


@each_row("dimensions", [64, 256])
async def test_the_demo_embeds(client: openai.AsyncOpenAI, dimensions: int) -> None:
    asked = {} if dimensions == 64 else {"dimensions": dimensions}
    made = await client.embeddings.create(
        model="embed-demo/0", input=["Hello", "Hello", "Bye"], extra_body=asked
    )
    first, second, third = (one.embedding for one in made.data)
    assert first == second != third
    assert len(first) == dimensions
    assert math.isclose(math.hypot(*first), 1.0, rel_tol=1e-6)
    assert made.usage.prompt_tokens == 3
