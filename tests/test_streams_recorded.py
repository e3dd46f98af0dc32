"""Recorded streams of real providers, replayed over sockets in many slicings."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support import recorded
from support.chat import Used, read_stream, say
from support.recorded import Said, accumulate
from support.replies import DONE, sliced_reply
from support.stage import Stage
from support.upstream import Script

pytestmark = pytest.mark.skipif(
    not recorded.FOLDER.is_dir(), reason="the recorded streams (../shared/streams) are not here"
)
BYTEWISE_BYTES = 10_000
"""Longer recordings go in pieces of up to 97 bytes: a packet a byte takes too long."""
SLICINGS = ("whole", "by event", "by byte", "random 1", "random 2")


def body_of(name: str) -> bytes:
    return b"".join(b"data: " + line + b"\n\n" for line in recorded.load_lines(name)) + DONE


def slice_body(body: bytes, slicing: str, name: str) -> Script:
    seed = f"{name} {slicing}"
    print("seed:", seed)
    dice = random.Random(seed)
    match slicing:
        case "whole":
            sizes = [len(body)]
        case "by event":
            sizes = [len(event) + 2 for event in body.split(b"\n\n")]
        case "by byte" if len(body) <= BYTEWISE_BYTES:
            sizes = [1] * len(body)
        case "by byte":
            sizes = [dice.randint(1, 97) for _ in range(len(body))]
        case _:
            sizes = [dice.choice((1, 3, 50, 700, 4000)) for _ in range(len(body))]
    return sliced_reply(body, sizes)


def used(said: Said) -> Used:
    assert said.usage is not None
    prompt, completion, _ = said.usage
    return Used(prompt, completion, said.cached_tokens)


@pytest.mark.parametrize("asked", [False, True], ids=["unasked", "usage"])
@pytest.mark.parametrize("slicing", SLICINGS)
@pytest.mark.parametrize("name", recorded.NAMES)
async def test_recorded_stream_says_the_same_and_keeps_the_rules(
    stage: Stage, name: str, slicing: str, *, asked: bool
) -> None:
    expected = accumulate(recorded.load(name))
    stage.alpha.play(slice_body(body_of(name), slicing, name))
    model = stage.fresh("plain")
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if asked else {}
    reply = await stage.chat(say(model, stream=True, **options))
    assert reply.status == 200
    assert reply.complete
    assert reply.headers["content-type"].startswith("text/event-stream")
    said = read_stream(reply.body, model, usage_asked=asked)
    assert said.choices == expected.choices
    assert said.usage in ([expected.usage] if asked else [expected.usage, None])
    assert await stage.charge_nano(reply) == used(expected).cost_nano
    row = await stage.settled(reply)
    assert (row.state, row.outcome, row.estimated) == ("posted", "complete", False)
    assert row.input + row.cached_input == used(expected).prompt
    assert row.output == used(expected).completion


async def test_upstream_is_always_asked_for_usage(stage: Stage) -> None:
    stage.alpha.play(slice_body(body_of("openai-text"), "whole", "openai-text"))
    await stage.chat(say(stage.fresh("plain"), stream=True))
    assert stage.alpha.last.json["stream_options"]["include_usage"] is True
    stage.alpha.play(slice_body(body_of("mistral-text"), "whole", "mistral-text"))
    await stage.chat(say(stage.fresh("no-usage"), stream=True))
    assert "stream_options" not in stage.alpha.last.json


async def test_conforming_stream_passes_byte_for_byte_but_for_the_model(stage: Stage) -> None:
    """OpenAI's own stream needs no repair: the model's name and the usage chunk are the edits."""
    body = body_of("openai-text")
    stage.alpha.play(slice_body(body, "random 3", "openai-text"))
    model = stage.fresh("plain")
    reply = await stage.chat(say(model, stream=True, stream_options={"include_usage": True}))
    upstream_model = recorded.load("openai-text")[0]["model"]
    assert reply.body == body.replace(
        b'"model":"%s"' % upstream_model.encode(), b'"model":"%s"' % model.encode()
    )
