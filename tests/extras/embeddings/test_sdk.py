"""Vectors, by OpenAI's own SDK and the demo. What is charged for them, and how they fail, is in `played.txt`."""

from __future__ import annotations

import json
import math

import orjson
import pytest

from gateway.base.errors import BadRequest
from gateway.extras.embeddings.demo import DIMENSIONS, MAX_DIMENSIONS, make_vector
from gateway.upstream.demo import DemoForwarder
from tests.api.scene import check_nobody_waits, set_stage
from tests.support.chat import Used
from tests.support.config import EMBEDS, Kind
from tests.support.embeddings import EMBEDDINGS, VECTORS, embed, embeddings, pack, round_trip
from tests.support.formats import SERVICES
from tests.support.records import make_provider
from tests.support.replies import dumps, http, json_reply
from tests.support.rows import each_row
from tests.support.sdks import Clients
from tests.support.stage import Stage
from tests.upstream.kit import TellingLife, make_attempt


@each_row("kind", ["embed", "embed-floats"])
async def test_a_caller_who_says_nothing_gets_floats(
    stage: Stage, clients: Clients, kind: str
) -> None:
    """The package asks for base64 then, whatever the provider can."""
    model = stage.fresh(kind)
    stage.alpha.play(json_reply(embeddings(packed=kind == "embed")))
    made = await clients.chat.embeddings.create(model=model, input=["one", "two"])
    sent = stage.alpha.last.json
    assert sent["encoding_format"] == ("base64" if kind == "embed" else "float")
    assert [tuple(one.embedding) for one in made.data] == [*map(round_trip, VECTORS)]
    assert [one.index for one in made.data] == [0, 1]
    assert (made.model, made.usage.prompt_tokens, made.usage.total_tokens) == (model, 11, 11)


@pytest.mark.slow
@pytest.mark.parametrize("packed", [True, False])
async def test_megabytes_of_vectors_stop_nobody(packed: bool) -> None:
    """A reply of base64 passes; one of floats is packed here. Others are answered meanwhile."""
    vector = [value / 2**30 for value in range(2**29, 2**29 + 3072)]
    item = pack(vector) if packed else vector
    count = 2048 if packed else 550
    data = [{"object": "embedding", "index": n, "embedding": item} for n in range(count)]
    large = dumps({"object": "list", "data": data, "model": "m", "usage": {"prompt_tokens": 7}})
    option = "" if packed else "embeddings_base64 = false"
    kinds = {"plain": Kind(("alpha",), 1, option, makes=EMBEDS)}
    async with set_stage(kinds=kinds) as stage:
        stage.alpha.always([http(large)])
        body = embed("plain/0", encoding_format="base64")
        reply = await check_nobody_waits(
            stage, lambda: stage.gateway.post(EMBEDDINGS, stage.key, body)
        )
        assert (reply.status, reply.complete) == (200, True)
        told = json.loads(reply.body)
        assert (told["model"], len(told["data"])) == ("plain/0", count)
        assert {one["embedding"] for one in told["data"]} == {pack(vector)}
        assert await stage.charge_nano(reply) == Used(7, 0).cost_nano


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
