"""Pictures, by OpenAI's own SDK and the demo. What is charged for them, and how they fail, is in `played.txt`."""

from __future__ import annotations

import base64

from tests.support.pairs import Clients
from tests.support.replies import json_reply, sse_reply
from tests.support.stage import Stage


async def test_the_sdk_gets_pictures(stage: Stage, clients: Clients) -> None:
    stage.alpha.play(json_reply({"created": 1, "data": [{"b64_json": "QUJD"}] * 2}))
    made = await clients.chat.images.generate(model=stage.fresh("image"), prompt="a cat", n=2)
    assert [one.b64_json for one in made.data or []] == ["QUJD"] * 2
    part = {"type": "image_generation.partial_image", "b64_json": "QQ==", "partial_image_index": 0}
    usage = {"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}
    whole = {"type": "image_generation.completed", "b64_json": "QUJD", "usage": usage}
    stage.alpha.play(sse_reply([part, whole], done=False))
    model = stage.fresh("image-tokens")
    stream = await clients.chat.images.generate(
        model=model, prompt="a cat", stream=True, partial_images=1
    )
    assert [one.b64_json async for one in stream] == ["QQ==", "QUJD"]


async def test_the_demo_draws(clients: Clients) -> None:
    made = await clients.chat.images.generate(model="image-demo/0", prompt="a cat")
    assert base64.b64decode((made.data or [])[0].b64_json or "").startswith(b"\x89PNG")
