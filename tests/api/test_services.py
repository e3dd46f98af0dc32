"""Completions, images and ranks over a scripted provider and the demo, by OpenAI's own SDK."""

from __future__ import annotations

import base64
from typing import Final

import openai
import pytest

from tests.support.chat import Used
from tests.support.pairs import Clients
from tests.support.replies import json_reply, sse_reply
from tests.support.stage import Stage
from tests.support.texts import COMPLETIONS, text_completion, text_events

IMAGES: Final = "/v1/images/generations"
RERANK: Final = "/v1/rerank"


async def test_the_sdk_gets_text_and_its_pieces(stage: Stage, clients: Clients) -> None:
    stage.alpha.play(json_reply(text_completion("one", "two")))
    model = stage.fresh("text")
    made = await clients.chat.completions.create(model=model, prompt="def", n=2, suffix="end")
    assert [one.text for one in made.choices] == ["one", "two"]
    assert (made.model, made.usage and made.usage.total_tokens) == (model, 18)
    assert stage.alpha.last.target == COMPLETIONS
    stage.alpha.play(sse_reply(text_events("a", "b", "c")))
    stream = await clients.chat.completions.create(model=model, prompt="def", stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(one.choices[0].text for one in chunks) == "abc"
    assert {one.model for one in chunks} == {model}


USAGE: Final = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}


async def test_images_are_charged_by_their_price_or_by_their_tokens(
    stage: Stage, clients: Clients
) -> None:
    reply = {"created": 1, "data": [{"b64_json": "QUJD"}] * 2}
    stage.alpha.always(json_reply(reply))
    model = stage.fresh("image")
    ask = {"model": model, "prompt": "a cat", "n": 2, "quality": "high", "size": "1024x1024"}
    raw = await stage.gateway.post(IMAGES, stage.key, ask)
    assert raw.json == reply
    assert await stage.charge_nano(raw) == 2 * 170_000_000
    assert stage.books.hold_nano(raw.request_id) == 2 * 170_000_000
    made = await clients.chat.images.generate(model=model, prompt="a cat", n=2)
    assert [one.b64_json for one in made.data or []] == ["QUJD"] * 2
    with pytest.raises(openai.BadRequestError, match="no price here"):
        await clients.chat.images.generate(model=model, prompt="a cat", size="512x512")
    stage.alpha.play(json_reply(reply | {"usage": USAGE}))
    raw = await stage.gateway.post(IMAGES, stage.key, ask | {"model": stage.fresh("image-tokens")})
    assert await stage.charge_nano(raw) == Used(11, 7).cost_nano


async def test_a_stream_of_images_passes(stage: Stage, clients: Clients) -> None:
    partial = {
        "type": "image_generation.partial_image",
        "b64_json": "QQ==",
        "partial_image_index": 0,
    }
    whole = {"type": "image_generation.completed", "b64_json": "QUJD", "usage": USAGE}
    stage.alpha.play(sse_reply([partial, whole], done=False))
    stream = await clients.chat.images.generate(
        model=stage.fresh("image-tokens"), prompt="a cat", stream=True, partial_images=1
    )
    events = [one async for one in stream]
    assert [one.b64_json for one in events] == ["QQ==", "QUJD"]


async def test_the_demo_draws_and_ranks(stage: Stage, clients: Clients) -> None:
    made = await clients.chat.images.generate(model="image-demo/0", prompt="a cat")
    picture = base64.b64decode((made.data or [])[0].b64_json or "")
    assert picture.startswith(b"\x89PNG")
    body = {"model": "image-demo/0", "prompt": "a cat", "stream": True}
    streamed = await stage.gateway.post(IMAGES, stage.key, body)
    assert b"event: image_generation.completed\n" in streamed.body
    assert await stage.charge_nano(streamed) == 170_000_000, "the first price of those that fit"
    ask = {"model": "rerank-demo/0", "query": "red cat", "documents": ["dog", "cat", "red cat"]}
    ranks = await stage.gateway.post(RERANK, stage.key, ask)
    assert [one["index"] for one in ranks.json["results"]] == [2, 1, 0]
