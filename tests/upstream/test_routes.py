"""Whole requests over several routes."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.chat import Used, check_error, read_stream, say
from tests.support.replies import (
    completion,
    error_reply,
    json_reply,
    sse_reply,
    sse_start,
    stream_chunks,
    stream_head,
    text_chunks,
)
from tests.support.stage import Stage
from tests.support.upstream import End

BREAKER_FAILURES = 5
OK = json_reply(completion("from the second"))
SSE_OK = sse_reply(stream_chunks(["from ", "the second"]))


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("status", [429, 500])
async def test_next_route_is_tried_after_a_refusal(
    stage: Stage, status: int, *, stream: bool
) -> None:
    model = stage.fresh("pair")
    stage.alpha.play(error_reply(status))
    stage.beta.play(SSE_OK if stream else OK)
    reply = await stage.chat(say(model, stream=stream))
    assert reply.status == 200
    if stream:
        assert read_stream(reply.body, model).text == "from the second"
    else:
        assert reply.json["choices"][0]["message"]["content"] == "from the second"
    assert (len(stage.alpha.exchanges), len(stage.beta.exchanges)) == (1, 1)
    assert stage.alpha.last.body == stage.beta.last.body
    assert await stage.charge_nano(reply) == Used(11, 7).cost_nano


async def test_next_route_is_not_tried_when_the_first_may_have_worked(stage: Stage) -> None:
    stage.alpha.play([End.FIN])
    reply = await stage.chat(say(stage.fresh("pair"), stream=True))
    check_error(reply, 502, "upstream_error")
    assert (len(stage.alpha.exchanges), stage.beta.connections) == (1, 0)
    assert await stage.charge_nano(reply) == 0


@pytest.mark.parametrize("begun", [False, True])
async def test_streams_that_fall_silent_send_others_to_the_next_route(
    stage: Stage, *, begun: bool
) -> None:
    """A time-out counts as a failure, though none is tried again; one behind an event does not."""
    model = stage.fresh("pair")
    start = sse_start(text_chunks(["Hello"], finish=None)) if begun else [stream_head()]
    stage.alpha.always([*start, End.HANG])
    stage.beta.always(OK)
    asked = [stage.chat(say(model, stream=True)) for _ in range(BREAKER_FAILURES)]
    assert {one.status for one in await asyncio.gather(*asked)} <= {200, 502}
    stage.alpha.always(OK)
    assert (await stage.chat(say(model))).status == 200
    assert len(stage.beta.exchanges) in ({0, 1} if begun else {1})
