"""Text completions over a scripted provider and the demo, by OpenAI's own SDK."""

from __future__ import annotations

import openai
import pytest

from tests.support.chat import Used
from tests.support.pairs import Clients
from tests.support.replies import json_reply, sse_reply
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.texts import COMPLETIONS, complete, text_completion, text_events


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


async def test_a_stream_is_charged_and_its_hold_covers_all_texts(stage: Stage) -> None:
    stage.alpha.play(sse_reply(text_events("a", "b")))
    body = complete(stage.fresh("text"), ["1234", "12345678"], n=2, max_tokens=5, stream=True)
    reply = await stage.gateway.post(COMPLETIONS, stage.key, body)
    assert reply.body.endswith(b"data: [DONE]\n\n")
    assert b'"usage"' not in reply.body
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano
    assert stage.books.hold_nano(reply.request_id) == Used(3, 2 * 2 * 5).cost_nano


async def test_a_model_is_served_on_the_paths_of_its_kind_alone(
    stage: Stage, clients: Clients
) -> None:
    with pytest.raises(openai.BadRequestError, match="is served at /v1/completions alone"):
        await clients.chat.embeddings.create(model=stage.fresh("text"), input="a")
    with pytest.raises(openai.BadRequestError, match="is served at /v1/chat/completions or"):
        await clients.chat.completions.create(model=stage.fresh("plain"), prompt="a")
    assert stage.alpha.exchanges == []


@each_row("stream", [False, True])
async def test_the_demo_completes(stage: Stage, *, stream: bool) -> None:
    body = complete("text-demo/0", ["say this", "back again"], max_tokens=2, stream=stream)
    reply = await stage.gateway.post(COMPLETIONS, stage.key, body)
    assert reply.status == 200
    assert b"say" in reply.body
    assert b"this" in reply.body
    assert await stage.charge_nano(reply) == Used(4, 4).cost_nano
