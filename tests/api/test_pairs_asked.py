"""All pairs of caller and provider: requests arrive in the provider's dialect."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import astuple
from typing import Any

import pydantic
import pytest

from tests.api.test_pairs import BONN, COLOGNE
from tests.support.messages import call, text
from tests.support.pairs import Caller, Clients, Provider, each_pair
from tests.support.replies import dumps
from tests.support.stage import Stage
from tests.support.told import Told, ToolCall

Json = dict[str, Any]


SCHEMA: Json = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


NAMES = ("weather", "now")


def make_chat_tool(name: str, **extra: Any) -> Json:
    return {"type": "function", "function": {"name": name, "parameters": SCHEMA, **extra}}


CHAT_TOOLS = [make_chat_tool(name) for name in NAMES]
MESSAGES_TOOLS = [{"name": name, "input_schema": SCHEMA} for name in NAMES]
RESPONSES_TOOLS = [
    {"type": "function", "name": name, "parameters": SCHEMA, "strict": False} for name in NAMES
]
ASKED = "Weather in both?"
RESULTS = {COLOGNE.id: "sunny", BONN.id: "rain"}
CALLED = Told("I look.", calls=[COLOGNE, BONN], finish="tool_calls")
CHAT_CALLS = [
    {
        "id": call.id,
        "type": "function",
        "function": {"name": call.name, "arguments": dumps(call.arguments).decode()},
    }
    for call in CALLED.calls
]
CHAT_TURN = [
    {"role": "user", "content": ASKED},
    {"role": "assistant", "content": "I look.", "tool_calls": CHAT_CALLS},
    *({"role": "tool", "tool_call_id": one, "content": said} for one, said in RESULTS.items()),
]
MESSAGES_RESULTS = [
    {"type": "tool_result", "tool_use_id": one, "content": said} for one, said in RESULTS.items()
]
MESSAGES_TURN = [
    {"role": "user", "content": [text(ASKED)]},
    {
        "role": "assistant",
        "content": [text("I look."), *(call(*astuple(one)) for one in CALLED.calls)],
    },
    {"role": "user", "content": MESSAGES_RESULTS},
]


async def call_tools_by_chat(clients: Clients, model: str, *, stream: bool) -> str | None:
    """Call tools as in OpenAI's guide: the SDK's own message goes back with the results."""
    completions = clients.chat.chat.completions
    said: list[Any] = [{"role": "user", "content": ASKED}]
    options: Json = {"model": model, "messages": said, "tools": CHAT_TOOLS}
    if stream:
        async with completions.stream(**options) as events:
            called: Any = await events.get_final_completion()
    else:
        called = await completions.create(**options)
    message = called.choices[0].message
    calls = message.tool_calls
    said += [message.model_dump(exclude_unset=True, exclude={"parsed"})]
    said += [{"role": "tool", "tool_call_id": one.id, "content": RESULTS[one.id]} for one in calls]
    final = await completions.create(**options)
    return final.choices[0].message.content


async def call_tools_by_messages(clients: Clients, model: str, *, stream: bool) -> str | None:
    """Call tools as in Anthropic's guide: the SDK's own content goes back with the results."""
    said: list[Any] = [{"role": "user", "content": [text(ASKED)]}]
    options: Json = {"model": model, "messages": said, "tools": MESSAGES_TOOLS, "max_tokens": 4096}
    if stream:
        async with clients.messages.messages.stream(**options) as events:
            called: Any = await events.get_final_message()
    else:
        called = await clients.messages.messages.create(**options)
    said.append({"role": "assistant", "content": called.content})
    uses = [block for block in called.content if block.type == "tool_use"]
    results = [
        {"type": "tool_result", "tool_use_id": one.id, "content": RESULTS[one.id]} for one in uses
    ]
    said.append({"role": "user", "content": results})
    final = await clients.messages.messages.create(**options)
    return "".join(block.text for block in final.content if block.type == "text")


async def call_tools_by_responses(clients: Clients, model: str, *, stream: bool) -> str | None:
    """Call tools as in OpenAI's guide: the output goes back with the results."""
    said: list[Any] = [{"role": "user", "content": ASKED}]
    options: Json = {"model": model, "input": said, "tools": RESPONSES_TOOLS, "store": False}
    if stream:
        async with clients.chat.responses.stream(**options) as events:
            called: Any = await events.get_final_response()
    else:
        called = await clients.chat.responses.create(**options)
    said += called.output
    calls = [item for item in called.output if item.type == "function_call"]
    said += [
        {"type": "function_call_output", "call_id": one.call_id, "output": RESULTS[one.call_id]}
        for one in calls
    ]
    return (await clients.chat.responses.create(**options)).output_text


LOOPS = {
    "chat": call_tools_by_chat,
    "messages": call_tools_by_messages,
    "responses": call_tools_by_responses,
}


def drop_nulls(value: Any) -> Any:
    """Drop the nulls that the SDKs add."""
    if isinstance(value, dict):
        own = {"caller", "index", "parsed_arguments", "parsed_output"}
        return {k: drop_nulls(v) for k, v in value.items() if v is not None and k not in own}
    return [drop_nulls(item) for item in value] if isinstance(value, list) else value


@each_pair
@pytest.mark.parametrize("stream", [False, True], ids=["json", "sse"])
async def test_tool_round_trip(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider, *, stream: bool
) -> None:
    """Two calls at once, their results, the reply: the provider sees its own ids in its dialect."""
    first = provider.stream(CALLED) if stream else provider.reply(CALLED)
    stage.alpha.play(first, provider.reply(Told("Mixed.")))
    model = stage.fresh(provider.kind)
    assert await LOOPS[caller.dialect](clients, model, stream=stream) == "Mixed."
    asked, answered = (exchange.json for exchange in stage.alpha.exchanges)
    if provider.dialect == "responses":
        check_responses_turn(answered)
        return
    turn, tools = (
        (CHAT_TURN, CHAT_TOOLS) if provider.dialect == "chat" else (MESSAGES_TURN, MESSAGES_TOOLS)
    )
    if caller.dialect == provider.dialect == "chat":
        assert asked["messages"] == turn[:1]
    if caller.dialect == "responses" and provider.dialect == "chat":
        tools = [make_chat_tool(name, strict=False) for name in NAMES]
    assert asked["tools"] == answered["tools"] == tools
    assert drop_nulls(answered["messages"]) == turn


def check_responses_turn(asked: Json) -> None:
    assert [tool["name"] for tool in asked["tools"]] == [*NAMES]
    calls = [one for one in asked["input"] if one.get("type") == "function_call"]
    assert [
        ToolCall(one["call_id"], one["name"], json.loads(one["arguments"])) for one in calls
    ] == CALLED.calls
    results = [one for one in asked["input"] if one.get("type") == "function_call_output"]
    assert {one["call_id"]: one["output"] for one in results} == RESULTS


class Point(pydantic.BaseModel):
    x: int
    y: int


POINT = Point(x=1, y=2)


async def parse_by_chat(clients: Clients, options: Json) -> list[Point | None]:
    completions = clients.chat.chat.completions
    whole = await completions.parse(**options, response_format=Point)
    async with completions.stream(**options, response_format=Point) as stream:
        final = await stream.get_final_completion()
    return [one.choices[0].message.parsed for one in (whole, final)]


async def parse_by_messages(clients: Clients, options: Json) -> list[Point | None]:
    messages = clients.messages.messages
    whole = await messages.parse(**options, output_format=Point)
    async with messages.stream(**options, output_format=Point) as stream:
        final = await stream.get_final_message()
    return [one.parsed_output for one in (whole, final)]


async def parse_by_responses(clients: Clients, options: Json) -> list[Point | None]:
    options = {"model": options["model"], "input": options["messages"]}
    whole = await clients.chat.responses.parse(**options, text_format=Point)
    async with clients.chat.responses.stream(**options, text_format=Point) as stream:
        final = await stream.get_final_response()
    return [one.output_parsed for one in (whole, final)]


PARSERS = {
    "chat": parse_by_chat,
    "messages": parse_by_messages,
    "responses": parse_by_responses,
}


FORMS: dict[str, Callable[[Json], Json]] = {
    "chat": lambda sent: sent["response_format"]["json_schema"],
    "messages": lambda sent: sent["output_config"]["format"],
    "responses": lambda sent: sent["text"]["format"],
}
"""Where the schema of the reply stands, by the provider's dialect."""


@each_pair
async def test_sdks_parse_what_a_schema_asked_for(
    stage: Stage, clients: Clients, caller: Caller, provider: Provider
) -> None:
    told = Told('{"x": 1, "y": 2}')
    stage.alpha.play(provider.reply(told), provider.stream(told))
    options: Json = {"messages": [{"role": "user", "content": "Where?"}], "max_tokens": 9}
    options["model"] = stage.fresh(provider.kind)
    assert await PARSERS[caller.dialect](clients, options) == [POINT, POINT]
    for exchange in stage.alpha.exchanges:
        form = FORMS[provider.dialect](exchange.json)
        assert form["schema"]["required"] == ["x", "y"]
