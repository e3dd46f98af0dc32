"""All pairs of caller and provider, by the real SDKs: content, charges and errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pydantic
import pytest

from tests.support.chat import Used
from tests.support.config import UPSTREAM_NAME
from tests.support.content import Content, ToolCall
from tests.support.pairs import PAIRS, Caller, Provider, each_pair
from tests.support.replies import LAST_CHUNK, chunked, json_reply, stream_head
from tests.support.rows import each_row, told_together
from tests.support.sdks import Clients
from tests.support.stage import Stage
from tests.support.upstream import End, Exchange, Script

COLOGNE = ToolCall("call_k3tq81wz", "weather", {"city": "Köln", "days": [1, 2.5, None]})
BONN = ToolCall("toolu_7f3kq92m", "weather", {"city": 'Bonn "am" \\Rhein\n🎉'})
SAID = {
    "text": Content('Grüße, "Welt"!\n🎉'),
    "thinking": Content("42", thinking="Let me\nthink."),
    "cut": Content("Once upon", finish="length"),
    "filtered": Content("I will", finish="content_filter"),
    "call": Content(calls=[COLOGNE], finish="tool_calls"),
    "text and calls": Content("Both.", calls=[COLOGNE, BONN], finish="tool_calls"),
    "call without arguments": Content(
        calls=[ToolCall("call_m8v20xpe", "now", {})], finish="tool_calls"
    ),
    "cached": Content("Hi", used=Used(1000, 50, 900)),
    "written": Content("Hi", used=Used(1000, 50, 300, 600)),
    "all cached": Content("Hi", used=Used(1000, 1, 1000)),
    "nearly all written": Content("Hi", used=Used(1000, 50, 0, 999)),
    "large": Content("Hi", used=Used(999_999, 4096, 333_333, 333_334)),
}
HELLO = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 100}


@pytest.mark.parametrize("step", [3, pytest.param(1, marks=pytest.mark.daily)])
async def test_what_is_said_arrives(stage: Stage, clients: Clients, step: int) -> None:
    """Text, reasoning, calls, ending, usage and charge; whole, by the helper, and event by event."""
    with told_together() as row:
        for number, (caller, provider) in enumerate(PAIRS):
            for name in [*SAID, *SAID][number % step :: step][: len(SAID) // step]:
                told = SAID[name]
                with row(f"{name}: {caller.dialect} over {provider.dialect}"):
                    stage.alpha.play(
                        provider.reply(told), provider.stream(told), provider.stream(told)
                    )
                    body = HELLO | {"model": stage.fresh(provider.kind)}
                    balance = stage.books.balance_nano("rich")
                    assert await caller.complete(clients, body) == told
                    assert await caller.stream(clients, body) == told
                    assert await caller.iterate(clients, body) > 1
                    assert told.used is not None
                    charged = balance - stage.books.balance_nano("rich")
                    assert charged == 3 * told.used.cost_nano


@each_pair
@each_row("way", ["complete", "stream", "iterate"])
async def test_provider_that_errs_tells_neither_its_name_of_the_model_nor_our_key(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider, way: str
) -> None:
    """Checked for an error inside a 200, whole or in the middle of a stream."""
    model = stage.fresh(provider.kind)
    error = provider.error_event(f"{UPSTREAM_NAME} with {stage.secret} is ill")
    if way != "complete":
        pieces = [*provider.events(SAID["text"])[:3], error]
        stage.alpha.play([stream_head(), *map(chunked, pieces), LAST_CHUNK])
    else:
        said = json.loads(error.partition(b"data: ")[2])
        stage.alpha.play(json_reply(said.get("response", said)))
    with pytest.raises(caller.error, match="is ill") as caught:
        await getattr(caller, way)(clients, HELLO | {"model": model})
    assert UPSTREAM_NAME not in str(caught.value)
    assert stage.secret not in str(caught.value)


@each_pair
@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.daily)])
async def test_stream_cut_at_any_event_raises(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider, step: int
) -> None:
    """The connection breaks before the terminal event, so no answer is silently short."""
    events = provider.events(SAID["text and calls"])
    for ask in (caller.stream, caller.iterate):
        model = stage.fresh(provider.kind)
        for number, count in enumerate(range(0, len(events), step)):
            if number % 4 == 0:  # five failures in a row would shut the provider off
                stage.alpha.play(provider.stream(SAID["text"]))
                await ask(clients, HELLO | {"model": model})
            stage.alpha.play([stream_head(), *map(chunked, events[:count]), End.FIN])
            with pytest.raises(caller.error):
                await ask(clients, HELLO | {"model": model})


async def test_streams_at_once_do_not_mix(stage: Stage, clients: Clients) -> None:
    """All pairs run side by side, on shared connections and models."""
    models = {provider.kind: stage.fresh(provider.kind) for _, provider in PAIRS}
    said = {
        f"{caller.dialect} {provider.dialect} {number}": (caller, provider)
        for caller, provider in PAIRS
        for number in range(4)
    }

    def tell(name: str) -> Content:
        return Content(f"I am {name}. " * 20, thinking=f"Who am I? {name}")

    def answer(exchange: Exchange) -> Script:
        asked = exchange.json
        content = (asked.get("messages") or asked["input"])[0]["content"]
        name = content if isinstance(content, str) else content[0]["text"]
        return said[name][1].stream(tell(name))

    async def ask(name: str, caller: Caller, provider: Provider) -> None:
        messages = [{"role": "user", "content": name}]
        body = {"model": models[provider.kind], "messages": messages, "max_tokens": 9}
        assert await caller.stream(clients, body) == tell(name)

    stage.alpha.always(answer)
    async with asyncio.TaskGroup() as group:
        for name, (caller, provider) in said.items():
            group.create_task(ask(name, caller, provider))


class Point(pydantic.BaseModel):
    x: int
    y: int


POINT = Point(x=1, y=2)


async def parse_by_chat(clients: Clients, options: dict[str, Any]) -> list[Point | None]:
    completions = clients.chat.chat.completions
    whole = await completions.parse(**options, response_format=Point)
    async with completions.stream(**options, response_format=Point) as stream:
        final = await stream.get_final_completion()
    return [one.choices[0].message.parsed for one in (whole, final)]


async def parse_by_messages(clients: Clients, options: dict[str, Any]) -> list[Point | None]:
    messages = clients.messages.messages
    whole = await messages.parse(**options, output_format=Point)
    async with messages.stream(**options, output_format=Point) as stream:
        final = await stream.get_final_message()
    return [one.parsed_output for one in (whole, final)]


async def parse_by_responses(clients: Clients, options: dict[str, Any]) -> list[Point | None]:
    options = {"model": options["model"], "input": options["messages"]}
    whole = await clients.chat.responses.parse(**options, text_format=Point)
    async with clients.chat.responses.stream(**options, text_format=Point) as stream:
        final = await stream.get_final_response()
    return [one.output_parsed for one in (whole, final)]


PARSERS = {"chat": parse_by_chat, "messages": parse_by_messages, "responses": parse_by_responses}


FORMS: dict[str, Callable[[dict[str, Any]], dict[str, Any]]] = {
    "chat": lambda sent: sent["response_format"]["json_schema"],
    "messages": lambda sent: sent["output_config"]["format"],
    "responses": lambda sent: sent["text"]["format"],
}
"""The place of a reply's schema in a request, by the provider's dialect."""


@each_pair
async def test_sdks_parse_what_a_schema_asked_for(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider
) -> None:
    told = Content('{"x": 1, "y": 2}')
    stage.alpha.play(provider.reply(told), provider.stream(told))
    options = HELLO | {"model": stage.fresh(provider.kind)}
    assert await PARSERS[caller.dialect](clients, options) == [POINT, POINT]
    for exchange in stage.alpha.exchanges:
        form = FORMS[provider.dialect](exchange.json)
        assert form["schema"]["required"] == ["x", "y"]
