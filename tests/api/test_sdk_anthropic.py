"""The real `anthropic` package, changed only in base address and key."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import pytest

from tests.support.chat import Used
from tests.support.config import KINDS
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, Provider
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.told import Told, ToolCall

HELLO: Any = [{"role": "user", "content": "Say hello."}]
PROVIDERS = [CHAT_PROVIDER, MESSAGES_PROVIDER]
each_provider = each_row("provider", PROVIDERS)


@pytest.fixture
async def aclient(stage: Stage) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=stage.gateway.root_url, api_key=stage.key, max_retries=0
    ) as one:
        yield one


@each_provider
async def test_raw_response_tells_request_id_and_cost(
    stage: Stage, aclient: anthropic.AsyncAnthropic, provider: Provider
) -> None:
    stage.alpha.play(provider.reply(Told("Hi")), provider.stream(Told("Hi")))
    model = stage.fresh(provider.kind)
    raw = await aclient.messages.with_raw_response.create(
        model=model, messages=HELLO, max_tokens=10
    )
    assert "x-gateway-cost" in raw.headers
    message = await raw.parse()
    assert message._request_id is not None
    assert await stage.books.charge_nano(message._request_id) == Used(11, 7).cost_nano
    async with aclient.messages.stream(model=model, messages=HELLO, max_tokens=10) as stream:
        await stream.until_done()
        assert stream.request_id is not None
        assert await stage.books.charge_nano(stream.request_id) == Used(11, 7).cost_nano


async def test_models_are_listed_page_by_page(aclient: anthropic.AsyncAnthropic) -> None:
    """There is more than a page of 20: the SDK turns the pages itself, in both directions."""
    whole = [model.id async for model in aclient.models.list(limit=1000)]
    assert len(whole) == len(set(whole)) == sum(kind.count for kind in KINDS.values())
    first = await aclient.models.list()
    assert [model.id for model in first.data] == whole[:20]
    assert first.has_more
    assert [model.id async for model in aclient.models.list(limit=90)] == whole
    assert [model.id async for model in aclient.models.list(after_id=whole[-50])] == whole[-49:]
    before = [model.id async for model in aclient.models.list(before_id=whole[45])]
    assert sorted(before) == sorted(whole[:45])


async def test_models_are_retrieved_by_ids_with_slashes(
    stage: Stage, aclient: anthropic.AsyncAnthropic
) -> None:
    model = stage.fresh("messages")
    one = await aclient.models.retrieve(model)
    assert (one.id, one.type, one.display_name) == (model, "model", model)
    assert one.max_tokens == 4096


@each_provider
@each_row("stream", [False, True])
async def test_tool_runner_runs(
    stage: Stage, aclient: anthropic.AsyncAnthropic, provider: Provider, *, stream: bool
) -> None:
    """The SDK's own agent loop, unchanged: it asks for a server-side thread first."""
    asked: list[str] = []

    @anthropic.beta_async_tool
    async def weather(city: str) -> str:
        """Tell the weather of a city."""
        asked.append(city)
        return f"sunny in {city}"

    calls = [ToolCall(f"toolu_{city}", "weather", {"city": city}) for city in ("Rome", "Oslo")]
    say = provider.stream if stream else provider.reply
    stage.alpha.play(say(Told(calls=calls, finish="tool_calls")), say(Told("Sunny.")))
    runner: Any = aclient.beta.messages.tool_runner(
        model=stage.fresh(provider.kind),
        max_tokens=99,
        tools=[weather],
        messages=HELLO,
        stream=stream,
    )
    final = await runner.until_done()
    assert sorted(asked) == ["Oslo", "Rome"]
    assert [block.text for block in final.content if block.type == "text"] == ["Sunny."]
    assert "Rome" in stage.alpha.last.body.decode()
