"""The real `openai` package, changed only in base address and key."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import openai
import pytest
from openai.types.chat import ChatCompletionToolParam

from tests.support.chat import Used
from tests.support.replies import (
    UPSTREAM_MODEL,
    chunk,
    completion,
    error_reply,
    json_reply,
    sse_reply,
    sse_start,
    stream_chunks,
    text_chunks,
)
from tests.support.rows import each_row
from tests.support.stage import Stage
from tests.support.upstream import End, Wait

TOOLS: list[ChatCompletionToolParam] = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}},
                "required": ["city"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    }
]
CALL = {
    "id": "call_1",
    "type": "function",
    "function": {"name": "weather", "arguments": '{"city": "Köln"}'},
}
HELLO: Any = [{"role": "user", "content": "Say hello."}]


@pytest.fixture
def client(stage: Stage) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=stage.gateway.base_url, api_key=stage.key, max_retries=0) as one:
        yield one


@pytest.fixture
async def aclient(stage: Stage) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(
        base_url=stage.gateway.base_url, api_key=stage.key, max_retries=0
    ) as one:
        yield one


async def test_sync_client_completes_streams_and_lists(stage: Stage, client: openai.OpenAI) -> None:
    model = stage.fresh("plain")
    stage.alpha.play(json_reply(completion("Hello!")), sse_reply(stream_chunks(["Hel", "lo!"])))

    def use() -> tuple[str | None, str, list[str]]:
        whole = client.chat.completions.create(model=model, messages=HELLO)
        assert whole.model == model
        assert whole.id.startswith("chatcmpl-")
        assert whole.usage is not None
        assert whole.usage.total_tokens == 18
        with client.chat.completions.create(model=model, messages=HELLO, stream=True) as stream:
            pieces = [one.choices[0].delta.content or "" for one in stream]
        return (
            whole.choices[0].message.content,
            "".join(pieces),
            [one.id for one in client.models.list()],
        )

    text, streamed, models = await asyncio.to_thread(use)
    assert (text, streamed) == ("Hello!", "Hello!")
    assert model in models


async def test_async_client_streams_with_usage(stage: Stage, aclient: openai.AsyncOpenAI) -> None:
    model = stage.fresh("plain")
    stage.alpha.play(sse_reply(stream_chunks(["Hel", "lo!"])))
    stream = await aclient.chat.completions.create(
        model=model, messages=HELLO, stream=True, stream_options={"include_usage": True}
    )
    chunks = [one async for one in stream]
    assert "".join(one.choices[0].delta.content or "" for one in chunks if one.choices) == "Hello!"
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None
    assert chunks[-1].usage.completion_tokens == 7
    assert {one.model for one in chunks} == {model}


async def test_raw_response_tells_request_id_and_cost(
    stage: Stage, aclient: openai.AsyncOpenAI
) -> None:
    stage.alpha.play(json_reply(completion()))
    raw = await aclient.chat.completions.with_raw_response.create(
        model=stage.fresh("plain"), messages=HELLO
    )
    parsed = raw.parse()
    assert parsed._request_id is not None
    assert await stage.books.charge_nano(parsed._request_id) == Used(11, 7).cost_nano


async def test_tools_are_passed_and_called(stage: Stage, aclient: openai.AsyncOpenAI) -> None:
    value = completion(None)
    value["choices"][0]["message"]["tool_calls"] = [CALL]
    value["choices"][0]["finish_reason"] = "tool_calls"
    stage.alpha.play(json_reply(value))
    reply = await aclient.chat.completions.create(
        model=stage.fresh("plain"), messages=HELLO, tools=TOOLS, tool_choice="auto"
    )
    assert stage.alpha.last.json["tools"] == TOOLS
    assert stage.alpha.last.json["tool_choice"] == "auto"
    calls = reply.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].model_dump() == CALL
    assert reply.choices[0].finish_reason == "tool_calls"


async def test_tools_through_the_stream_helper(stage: Stage, aclient: openai.AsyncOpenAI) -> None:
    first = CALL | {"index": 0, "function": {"name": "weather", "arguments": ""}}
    fragments = [{"index": 0, "function": {"arguments": part}} for part in ('{"city":', ' "Köln"}')]
    stage.alpha.play(
        sse_reply(
            [
                chunk({"role": "assistant", "content": None, "tool_calls": [first]}),
                *(chunk({"tool_calls": [fragment]}) for fragment in fragments),
                chunk({}, finish="tool_calls"),
                chunk(None, usage={"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}),
            ]
        )
    )
    async with aclient.chat.completions.stream(
        model=stage.fresh("plain"), messages=HELLO, tools=TOOLS
    ) as stream:
        async for _ in stream:
            pass
        final = await stream.get_final_completion()
    calls = final.choices[0].message.tool_calls
    assert calls is not None
    assert calls[0].function.name == "weather"
    assert calls[0].function.parsed_arguments == {"city": "Köln"}


async def test_two_completions_in_one(stage: Stage, aclient: openai.AsyncOpenAI) -> None:
    value = completion("one")
    value["choices"].append(value["choices"][0] | {"index": 1})
    stage.alpha.play(
        json_reply(value),
        sse_reply(
            [
                *(chunk({"role": "assistant", "content": ""}, index=index) for index in (0, 1)),
                *(chunk({"content": f"text {index}"}, index=index) for index in (1, 0)),
                *(chunk({}, index=index, finish="stop") for index in (0, 1)),
                chunk(None, usage={"prompt_tokens": 5, "completion_tokens": 9, "total_tokens": 14}),
            ]
        ),
    )
    model = stage.fresh("plain")
    whole = await aclient.chat.completions.create(model=model, messages=HELLO, n=2)
    assert [choice.index for choice in whole.choices] == [0, 1]
    assert stage.alpha.last.json["n"] == 2
    stream = await aclient.chat.completions.create(model=model, messages=HELLO, n=2, stream=True)
    texts = {0: "", 1: ""}
    async for one in stream:
        texts[one.choices[0].index] += one.choices[0].delta.content or ""
    assert texts == {0: "text 0", 1: "text 1"}


async def test_models_are_retrieved_by_ids_with_slashes(
    stage: Stage, aclient: openai.AsyncOpenAI
) -> None:
    model = stage.fresh("plain")
    one = await aclient.models.retrieve(model)
    assert (one.id, one.object, one.owned_by) == (model, "model", "tester")
    assert [entry.id async for entry in aclient.models.list()].count(model) == 1


Use = Callable[[Stage, openai.AsyncOpenAI], Any]
NOT_FOUND: Use = lambda _, client: client.models.retrieve("no/such")  # noqa: E731 - a table below


def ask_as(account: str | None, kind: str = "plain", model: str | None = None) -> Use:
    async def ask(stage: Stage, client: openai.AsyncOpenAI) -> None:
        key = "sk-ru-nonsense" if account is None else stage.callers[account].key
        await client.with_options(api_key=key).chat.completions.create(
            model=model or stage.fresh(kind), messages=HELLO
        )

    return ask


EXCEPTIONS: dict[str, tuple[Use, type[openai.APIStatusError], int, str]] = {
    "400": (ask_as("rich", model="none"), openai.BadRequestError, 400, "model_not_found"),
    "401": (ask_as(None), openai.AuthenticationError, 401, "invalid_api_key"),
    "402": (ask_as("empty"), openai.APIStatusError, 402, "insufficient_quota"),
    "403": (ask_as("suspended"), openai.PermissionDeniedError, 403, "account_suspended"),
    "403 model": (ask_as("picky"), openai.PermissionDeniedError, 403, "model_not_allowed"),
    "404": (NOT_FOUND, openai.NotFoundError, 404, "model_not_found"),
    "502": (ask_as("rich"), openai.InternalServerError, 502, "upstream_error"),
    "503": (ask_as("rich", "refused"), openai.InternalServerError, 503, "upstream_unavailable"),
}


@each_row("name", EXCEPTIONS)
async def test_each_status_is_the_sdks_exception(
    stage: Stage, aclient: openai.AsyncOpenAI, name: str
) -> None:
    use, kind, status, code = EXCEPTIONS[name]
    stage.alpha.always(error_reply(500))
    with pytest.raises(kind) as caught:
        await use(stage, aclient)
    assert (caught.value.status_code, caught.value.code) == (status, code)
    assert caught.value.request_id
    assert caught.value.type
    assert isinstance(caught.value.body, dict)


async def test_rate_limit_is_the_sdks_exception(stage: Stage, aclient: openai.AsyncOpenAI) -> None:
    busy = asyncio.Event()
    stage.alpha.always([Wait(busy), *json_reply(completion())])
    limited = aclient.with_options(api_key=stage.callers["one-at-a-time"].key)
    model = stage.fresh("plain")
    async with asyncio.TaskGroup() as group:
        group.create_task(limited.chat.completions.create(model=model, messages=HELLO))
        await stage.alpha.wait_for(1)
        with pytest.raises(openai.RateLimitError) as caught:
            await limited.chat.completions.create(model=model, messages=HELLO)
        busy.set()
    assert caught.value.code == "rate_limit_exceeded"


async def test_retries_of_the_sdk_get_through(stage: Stage, aclient: openai.AsyncOpenAI) -> None:
    stage.alpha.play(error_reply(503), error_reply(503), json_reply(completion("third")))
    model = stage.fresh("plain")
    reply = await aclient.with_options(max_retries=2).chat.completions.create(
        model=model, messages=HELLO
    )
    assert reply.choices[0].message.content == "third"
    assert len(stage.alpha.exchanges) == 3


async def test_work_that_may_be_done_is_not_retried(
    stage: Stage, aclient: openai.AsyncOpenAI
) -> None:
    """After a time-out `x-should-retry: false` keeps the SDK from retrying."""
    stage.alpha.always([End.HANG])
    with pytest.raises(openai.InternalServerError) as caught:
        await aclient.with_options(max_retries=2).chat.completions.create(
            model=stage.fresh("brisk"), messages=HELLO
        )
    assert caught.value.code == "upstream_timeout"
    assert len(stage.alpha.exchanges) == 1


async def read_raw(client: openai.AsyncOpenAI, model: str, seen: asyncio.Event) -> None:
    async for _ in await client.chat.completions.create(model=model, messages=HELLO, stream=True):
        seen.set()


async def read_by_helper(client: openai.AsyncOpenAI, model: str, seen: asyncio.Event) -> None:
    async with client.chat.completions.stream(model=model, messages=HELLO) as events:
        async for _ in events:
            seen.set()


@each_row("read", [read_raw, read_by_helper])
async def test_cut_stream_raises(
    stage: Stage,
    aclient: openai.AsyncOpenAI,
    read: Callable[[openai.AsyncOpenAI, str, asyncio.Event], Awaitable[None]],
) -> None:
    """No answer is silently short."""
    seen = asyncio.Event()
    stage.alpha.play([*sse_start(text_chunks(["Hel"], finish=None)), Wait(seen), End.FIN])
    with pytest.raises(openai.APIError) as caught:
        await read(aclient, stage.fresh("plain"), seen)
    assert UPSTREAM_MODEL not in str(caught.value)
    assert caught.value.code == "upstream_error"
