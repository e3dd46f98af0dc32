"""All four pairs of caller and provider, by the real SDKs: what is said, asked, charged and broken."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.chat import MAX_OUTPUT_TOKENS, Used
from support.config import UPSTREAM_NAME
from support.pairs import (
    CHAT_CALLER,
    CHAT_PROVIDER,
    MESSAGES_CALLER,
    MESSAGES_PROVIDER,
    PAIRS,
    Caller,
    Clients,
    Provider,
    each_pair,
)
from support.replies import LAST_CHUNK, chunked, json_reply, stream_head
from support.stage import Stage
from support.told import Told, ToolCall
from support.upstream import End

Json = dict[str, Any]
COLOGNE = ToolCall("call_1", "weather", {"city": "Köln", "days": [1, 2.5, None]})
BONN = ToolCall("toolu_2", "weather", {"city": 'Bonn "am" \\Rhein\n🎉'})
SAID = {
    "text": Told('Grüße, "Welt"!\n🎉'),
    "thinking": Told("42", thinking="Let me\nthink."),
    "cut": Told("Once upon", finish="length"),
    "filtered": Told("I will", finish="content_filter"),
    "call": Told(calls=[COLOGNE], finish="tool_calls"),
    "text and calls": Told("Both.", calls=[COLOGNE, BONN], finish="tool_calls"),
    "call without arguments": Told(calls=[ToolCall("call_3", "now", {})], finish="tool_calls"),
    "cached": Told("Hi", used=Used(1000, 50, 900)),
    "written": Told("Hi", used=Used(1000, 50, 300, 600)),
}
HELLO = {"messages": [{"role": "user", "content": "Say hello."}], "max_tokens": 100}


@pytest.fixture
async def clients(stage: Stage) -> AsyncIterator[Clients]:
    made = Clients(stage)
    yield made
    await made.close()


@each_pair
@pytest.mark.parametrize("name", SAID)
async def test_what_is_said_arrives(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider, name: str
) -> None:
    """Text, reasoning, calls, ending and usage; whole, by the helper, and event by event."""
    told = SAID[name]
    model = stage.fresh(provider.kind)
    stage.alpha.play(provider.reply(told), provider.stream(told), provider.stream(told))
    body = HELLO | {"model": model}
    assert await caller.complete(clients, body) == told
    assert await caller.stream(clients, body) == told
    assert await caller.iterate(clients, body) > 1


PNG = "iVBORw0KGgo="
URL = "https://example.test/cat.png"
SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
ASKED: dict[str, tuple[Json, Json]] = {
    "system": (
        {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hi"},
            ],
            "max_tokens": 7,
        },
        {
            "system": [{"type": "text", "text": "Be brief."}],
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
            "max_tokens": 7,
        },
    ),
    "image": (
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What are these?"},
                        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}},
                        {"type": "image_url", "image_url": {"url": URL}},
                    ],
                }
            ],
            "max_tokens": 7,
        },
        {
            "messages": [
                {
                    "role": "user",
                    "content": [
                        {"type": "text", "text": "What are these?"},
                        {
                            "type": "image",
                            "source": {"type": "base64", "media_type": "image/png", "data": PNG},
                        },
                        {"type": "image", "source": {"type": "url", "url": URL}},
                    ],
                }
            ],
            "max_tokens": 7,
        },
    ),
    "stop": (
        {
            "messages": [{"role": "user", "content": "Count."}],
            "max_tokens": 7,
            "stop": ["END", "5"],
        },
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Count."}]}],
            "max_tokens": 7,
            "stop_sequences": ["END", "5"],
        },
    ),
    "one tool": (
        {
            "messages": [{"role": "user", "content": "Weather?"}],
            "max_tokens": 7,
            "tools": [
                {
                    "type": "function",
                    "function": {
                        "name": "weather",
                        "description": "Tells it.",
                        "parameters": SCHEMA,
                    },
                }
            ],
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
            "parallel_tool_calls": False,
        },
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Weather?"}]}],
            "max_tokens": 7,
            "tools": [{"name": "weather", "description": "Tells it.", "input_schema": SCHEMA}],
            "tool_choice": {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        },
    ),
    "schema": (
        {
            "messages": [{"role": "user", "content": "Where?"}],
            "max_tokens": 7,
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "response", "schema": SCHEMA, "strict": True},
            },
        },
        {
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Where?"}]}],
            "max_tokens": 7,
            "output_config": {"format": {"type": "json_schema", "schema": SCHEMA}},
        },
    ),
}
"""The same request in both dialects, as the chat SDK and as the messages SDK send it."""


@each_pair
@pytest.mark.parametrize("name", ASKED)
async def test_what_is_asked_arrives_in_the_providers_dialect(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider, name: str
) -> None:
    by_dialect = dict(zip(("chat", "messages"), ASKED[name], strict=True))
    stage.alpha.play(provider.reply(SAID["text"]))
    model = stage.fresh(provider.kind)
    await caller.complete(clients, by_dialect[caller.dialect] | {"model": model})
    assert stage.alpha.last.json == by_dialect[provider.dialect] | {"model": UPSTREAM_NAME}
    paths = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}
    assert stage.alpha.last.target == paths[provider.dialect]


CHAT_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": SCHEMA}}
    for name in ("weather", "now")
]
MESSAGES_TOOLS = [{"name": name, "input_schema": SCHEMA} for name in ("weather", "now")]
CALLED = Told("I look.", calls=[COLOGNE, BONN], finish="tool_calls")
CHAT_TURN = [
    {"role": "user", "content": "Weather in both?"},
    {
        "role": "assistant",
        "content": "I look.",
        "tool_calls": [
            {
                "id": "call_1",
                "type": "function",
                "function": {
                    "name": "weather",
                    "arguments": '{"city":"Köln","days":[1,2.5,null]}',
                },
            },
            {
                "id": "toolu_2",
                "type": "function",
                "function": {
                    "name": "weather",
                    "arguments": '{"city":"Bonn \\"am\\" \\\\Rhein\\n🎉"}',
                },
            },
        ],
    },
    {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    {"role": "tool", "tool_call_id": "toolu_2", "content": "rain"},
]
MESSAGES_TURN = [
    {"role": "user", "content": [{"type": "text", "text": "Weather in both?"}]},
    {
        "role": "assistant",
        "content": [
            {"type": "text", "text": "I look."},
            {"type": "tool_use", "id": "call_1", "name": "weather", "input": COLOGNE.arguments},
            {"type": "tool_use", "id": "toolu_2", "name": "weather", "input": BONN.arguments},
        ],
    },
    {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": "call_1", "content": "sunny"},
            {"type": "tool_result", "tool_use_id": "toolu_2", "content": "rain"},
        ],
    },
]


async def call_tools_by_chat(clients: Clients, model: str, *, stream: bool) -> str | None:
    """The way of OpenAI's guide: the SDK's own message goes back with the results."""
    completions = clients.chat.chat.completions
    said: list[Any] = [{"role": "user", "content": "Weather in both?"}]
    options: Json = {"model": model, "messages": said, "tools": CHAT_TOOLS}
    if stream:
        async with completions.stream(**options) as events:
            called: Any = await events.get_final_completion()
    else:
        called = await completions.create(**options)
    message = called.choices[0].message
    calls = message.tool_calls
    said += [message.model_dump(exclude_unset=True, exclude={"parsed"})]
    for call, result in zip(calls, ("sunny", "rain"), strict=True):
        said.append({"role": "tool", "tool_call_id": call.id, "content": result})
    final = await completions.create(**options)
    return final.choices[0].message.content


async def call_tools_by_messages(clients: Clients, model: str, *, stream: bool) -> str | None:
    """The way of Anthropic's guide: the SDK's own content goes back with the results."""
    said: list[Any] = [{"role": "user", "content": [{"type": "text", "text": "Weather in both?"}]}]
    options: Json = {
        "model": model,
        "max_tokens": MAX_OUTPUT_TOKENS,
        "messages": said,
        "tools": MESSAGES_TOOLS,
    }
    if stream:
        async with clients.messages.messages.stream(**options) as events:
            called: Any = await events.get_final_message()
    else:
        called = await clients.messages.messages.create(**options)
    said.append({"role": "assistant", "content": called.content})
    uses = [block for block in called.content if block.type == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": use.id, "content": result}
        for use, result in zip(uses, ("sunny", "rain"), strict=True)
    ]
    said.append({"role": "user", "content": results})
    final = await clients.messages.messages.create(**options)
    return "".join(block.text for block in final.content if block.type == "text")


LOOPS = {"chat": call_tools_by_chat, "messages": call_tools_by_messages}


def drop_nulls(value: Any) -> Any:
    """Without what the SDKs add of their own."""
    if isinstance(value, dict):
        own = {"caller", "index", "parsed_arguments", "parsed_output"}
        return {k: drop_nulls(v) for k, v in value.items() if v is not None and k not in own}
    return [drop_nulls(item) for item in value] if isinstance(value, list) else value


@each_pair
@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_tool_round_trip(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider, *, stream: bool
) -> None:
    """Two calls at once, their results, the answer: the provider sees its own ids in its dialect."""
    first = provider.stream(CALLED) if stream else provider.reply(CALLED)
    stage.alpha.play(first, provider.reply(Told("Mixed.")))
    model = stage.fresh(provider.kind)
    assert await LOOPS[caller.dialect](clients, model, stream=stream) == "Mixed."
    asked, answered = (exchange.json for exchange in stage.alpha.exchanges)
    turn, tools = (
        (CHAT_TURN, CHAT_TOOLS) if provider.dialect == "chat" else (MESSAGES_TURN, MESSAGES_TOOLS)
    )
    if caller.dialect == provider.dialect == "chat":
        assert asked["messages"] == turn[:1]
    assert asked["tools"] == answered["tools"] == tools
    assert drop_nulls(answered["messages"]) == turn


USED = {
    "plain": Used(11, 7),
    "cached": Used(1000, 50, 900),
    "written": Used(1000, 50, 0, 999),
    "all classes": Used(1003, 57, 301, 502),
    "all cached": Used(1000, 1, 1000),
    "nothing": Used(0, 0),
    "large": Used(999_999, 4096, 333_333, 333_334),
}


@pytest.mark.parametrize("name", USED)
async def test_charges_are_equal_in_all_pairs(stage: Stage, clients: Clients, name: str) -> None:
    """To the nano-unit, and the caller is told what it is charged for."""
    used = USED[name]
    told = Told("Hi", used=used)
    for caller, provider in PAIRS:
        model = stage.fresh(provider.kind)
        stage.alpha.play(provider.reply(told), provider.stream(told))
        balance = stage.books.balance_nano("rich")
        for ask in (caller.complete, caller.stream):
            assert (await ask(clients, HELLO | {"model": model})).used == used
            balance -= used.cost_nano
            assert stage.books.balance_nano("rich") == balance


def ways_of(caller: Caller) -> list[Any]:
    return [caller.stream, caller.iterate]


@each_pair
async def test_error_in_the_stream_raises(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider
) -> None:
    """After the first event; the message is the upstream's."""
    events = provider.events(SAID["text"])
    for ask in ways_of(caller):
        pieces = [*events[:3], provider.error_event("out of steam")]
        stage.alpha.play([stream_head(), *map(chunked, pieces), LAST_CHUNK])
        with pytest.raises(caller.error, match="out of steam"):
            await ask(clients, HELLO | {"model": stage.fresh(provider.kind)})


@each_pair
async def test_stream_cut_at_any_event_raises(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider
) -> None:
    """Never a silently short answer: the connection breaks before the terminal event."""
    events = provider.events(SAID["text and calls"])
    for ask in ways_of(caller):
        model = stage.fresh(provider.kind)
        for count in range(len(events)):
            if count % 4 == 0:  # five failures in a row would shut the provider off
                stage.alpha.play(provider.stream(SAID["text"]))
                await ask(clients, HELLO | {"model": model})
            stage.alpha.play([stream_head(), *map(chunked, events[:count]), End.FIN])
            with pytest.raises(caller.error):
                await ask(clients, HELLO | {"model": model})


@each_pair
async def test_stream_ended_cleanly_but_early_raises(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider
) -> None:
    """An upstream that just stops, before it said why."""
    events = provider.events(SAID["call"])
    for ask in ways_of(caller):
        for count in range(len(events) - 3):
            stage.alpha.play([stream_head(), *map(chunked, events[:count]), LAST_CHUNK])
            with pytest.raises(caller.error):
                await ask(clients, HELLO | {"model": stage.fresh(provider.kind)})


@pytest.mark.parametrize(
    ("caller", "provider"),
    [(CHAT_CALLER, MESSAGES_PROVIDER), (MESSAGES_CALLER, CHAT_PROVIDER)],
    ids=["chat over messages", "messages over chat"],
)
async def test_upstream_that_ignores_stream(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider
) -> None:
    """Its one JSON object becomes a stream."""
    told = SAID["text and calls"]
    stage.alpha.play(provider.reply(told), json_reply({"error": {"message": "no"}}))
    model = stage.fresh(provider.kind)
    assert await caller.stream(clients, HELLO | {"model": model}) == told
    with pytest.raises(caller.error):
        await caller.stream(clients, HELLO | {"model": model})
