"""The real `anthropic` package, changed only in base address and key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import anthropic
import pytest

from tests.support.chat import Used
from tests.support.config import KINDS
from tests.support.messages import USAGE, frames, make_events, make_message
from tests.support.pairs import CHAT_PROVIDER, MESSAGES_PROVIDER, Provider
from tests.support.replies import chunk, completion, json_reply, sse_reply, stream_chunks
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.told import Told, ToolCall

HELLO: Any = [{"role": "user", "content": "Say hello."}]
PROVIDERS = [CHAT_PROVIDER, MESSAGES_PROVIDER]
each_provider = each_row("provider", PROVIDERS)


@pytest.fixture
def client(stage: Stage) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(
        base_url=stage.gateway.root_url, api_key=stage.key, max_retries=0
    ) as one:
        yield one


@pytest.fixture
async def aclient(stage: Stage) -> AsyncIterator[anthropic.AsyncAnthropic]:
    async with anthropic.AsyncAnthropic(
        base_url=stage.gateway.root_url, api_key=stage.key, max_retries=0
    ) as one:
        yield one


@each_provider
async def test_sync_client_completes_and_streams(
    stage: Stage, client: anthropic.Anthropic, provider: Provider
) -> None:
    model = stage.fresh(provider.kind)
    told = Told("Hello!")
    stage.alpha.play(provider.reply(told), provider.stream(told), provider.stream(told))

    def use() -> list[str]:
        whole = client.messages.create(model=model, messages=HELLO, max_tokens=10)
        assert (whole.model, whole.role, whole.stop_reason) == (model, "assistant", "end_turn")
        assert whole.id.startswith("msg_")
        assert (whole.usage.input_tokens, whole.usage.output_tokens) == (11, 7)
        with client.messages.stream(model=model, messages=HELLO, max_tokens=10) as stream:
            pieces = list(stream.text_stream)
            assert stream.get_final_message().usage.output_tokens == 7
        with client.messages.create(
            model=model, messages=HELLO, max_tokens=10, stream=True
        ) as events:
            kinds = [event.type for event in events]
        assert kinds[0] == "message_start"
        assert kinds[-2:] == ["message_delta", "message_stop"]
        texts = [block.text for block in whole.content if block.type == "text"]
        return ["".join(texts), "".join(pieces)]

    assert await asyncio.to_thread(use) == ["Hello!", "Hello!"]


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


STOPPED: dict[str, tuple[Any, str, str | None]] = {
    "messages tells which": (
        make_message("1 2", stop="stop_sequence", stop_sequence="END"),
        "stop_sequence",
        "END",
    ),
    "vLLM tells which": (completion("1 2"), "stop_sequence", "END"),
    "OpenAI does not": (completion("1 2"), "end_turn", None),
}


@each_row("name", STOPPED)
async def test_stop_sequence(stage: Stage, aclient: anthropic.AsyncAnthropic, name: str) -> None:
    value, reason, sequence = STOPPED[name]
    if name.startswith("vLLM"):
        value["choices"][0]["stop_reason"] = "END"
    events: list[Any] = frames(make_events("1 2", stop="stop_sequence", sequence="END"))
    done = "choices" in value
    if done:
        events = stream_chunks(["1 ", "2"])
        events[-2]["choices"][0] |= {k: v for k, v in value["choices"][0].items() if "stop" in k}
    stage.alpha.play(json_reply(value), sse_reply(events, done=done))
    model = stage.fresh("plain" if done else "messages")
    options: Any = {"model": model, "messages": HELLO, "stop_sequences": ["END"], "max_tokens": 9}
    whole = await aclient.messages.create(**options)
    async with aclient.messages.stream(**options) as stream:
        final = await stream.get_final_message()
    for message in (whole, final):
        assert (message.stop_reason, message.stop_sequence) == (reason, sequence)


async def test_refusal_is_explained(stage: Stage, aclient: anthropic.AsyncAnthropic) -> None:
    """A chat upstream's refusal becomes the SDK's."""
    value = completion(None)
    value["choices"][0]["message"]["refusal"] = "I will not."
    stage.alpha.play(json_reply(value))
    message = await aclient.messages.create(
        model=stage.fresh("plain"), messages=HELLO, max_tokens=9
    )
    assert message.stop_reason == "refusal"
    assert message.stop_details is not None
    assert message.stop_details.explanation == "I will not."


async def test_parallel_calls_that_interleave(
    stage: Stage, aclient: anthropic.AsyncAnthropic
) -> None:
    """Blocks never overlap, although the chat upstream mixes the fragments of its calls."""
    begins = [
        {"index": i, "id": f"c{i}", "type": "function", "function": {"name": f"f{i}"}}
        for i in (0, 1)
    ]
    parts = [(0, '{"a":'), (1, '{"b":'), (0, "1}"), (1, "2}")]
    fragments = [{"index": i, "function": {"arguments": part}} for i, part in parts]
    stage.alpha.play(
        sse_reply(
            [
                chunk({"role": "assistant", "content": None}),
                *(chunk({"tool_calls": [one]}) for one in [*begins, *fragments]),
                chunk({}, finish="tool_calls"),
                chunk(None, usage={"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}),
            ]
        )
    )
    async with aclient.messages.stream(
        model=stage.fresh("plain"), messages=HELLO, max_tokens=9
    ) as stream:
        final = await stream.get_final_message()
    calls = [(b.id, b.name, b.input) for b in final.content if b.type == "tool_use"]
    assert calls == [("c0", "f0", {"a": 1}), ("c1", "f1", {"b": 2})]
    assert final.stop_reason == "tool_use"


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


async def test_count_tokens(stage: Stage, aclient: anthropic.AsyncAnthropic) -> None:
    stage.alpha.play(json_reply({"input_tokens": 2095}))
    counted = await aclient.messages.count_tokens(model=stage.fresh("messages"), messages=HELLO)
    assert counted.input_tokens == 2095
    estimated = await aclient.messages.count_tokens(model=stage.fresh("plain"), messages=HELLO)
    assert estimated.input_tokens >= -(-len("Say hello.") // 4)


async def test_beta_surface_works(stage: Stage, aclient: anthropic.AsyncAnthropic) -> None:
    """`client.beta` asks with `?beta=true` and names its betas in a header."""
    stage.alpha.play(json_reply(make_message()))
    reply = await aclient.beta.messages.create(
        model=stage.fresh("messages"), messages=HELLO, max_tokens=9, betas=["context-1m-2025-08-07"]
    )
    assert reply.usage.output_tokens == USAGE["output_tokens"]
    assert stage.alpha.last.headers["anthropic-beta"] == "context-1m-2025-08-07"


@each_row("kind", ["plain", "messages"])
async def test_structured_output(
    stage: Stage, aclient: anthropic.AsyncAnthropic, kind: str
) -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
    text = '{"a": 1}'
    value = make_message(text) if kind == "messages" else completion(text)
    stage.alpha.play(json_reply(value))
    output: Any = {"format": {"type": "json_schema", "schema": schema}}
    reply = await aclient.messages.create(
        model=stage.fresh(kind), messages=HELLO, max_tokens=9, output_config=output
    )
    assert [block.text for block in reply.content if block.type == "text"] == [text]
    sent = stage.alpha.last.json
    if kind == "plain":
        assert sent["response_format"]["json_schema"]["schema"] == schema
    else:
        assert sent["output_config"] == output


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
