"""Text and its pieces, by OpenAI's own SDK. What is charged for them, and how they fail, is in `played.txt`."""

from __future__ import annotations

from tests.support.pairs import Clients
from tests.support.replies import json_reply, sse_reply
from tests.support.stage import Stage
from tests.support.texts import text_completion, text_events


async def test_the_sdk_gets_text_and_its_pieces(stage: Stage, clients: Clients) -> None:
    stage.alpha.play(json_reply(text_completion("one", "two")))
    model = stage.fresh("text")
    made = await clients.chat.completions.create(model=model, prompt="def", n=2, suffix="end")
    assert [one.text for one in made.choices] == ["one", "two"]
    assert (made.model, made.usage and made.usage.total_tokens) == (model, 18)
    stage.alpha.play(sse_reply(text_events("a", "b", "c")))
    stream = await clients.chat.completions.create(model=model, prompt="def", stream=True)
    chunks = [chunk async for chunk in stream]
    assert "".join(one.choices[0].text for one in chunks) == "abc"
    assert {one.model for one in chunks} == {model}
