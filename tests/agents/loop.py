"""Agents: callers that keep a conversation by their SDK, and answer the calls of a model."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import anthropic
import openai
import pytest

from tests.agents.vendors.base import OPENING, STEPS, TOOL, Thinking
from tests.support.process import GatewayProcess
from tests.support.replies import Json
from tests.support.told import ToolCall

SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
DESCRIPTION: Final = "Tell the weather in a city."
QUESTIONS: Final = ("How is the weather in Köln, Oslo and Bergen?", "And what did you learn?")
MAX_TOKENS: Final = 8000
EFFORT: Final = "high"


def run_tool(call: ToolCall) -> str:
    assert call.name == TOOL
    return f"sunny in {call.arguments['city']}"


@dataclass(frozen=True, slots=True)
class Said:
    """A turn of the model, as the caller reads it."""

    text: str
    calls: tuple[ToolCall, ...] = ()


class Agent:
    """A caller of one dialect by its vendor's SDK."""

    dialect: str

    def __init__(self, gateway: GatewayProcess, key: str, *, stream: bool) -> None:
        self.gateway = gateway
        self.key = key
        self.stream = stream
        self.history: list[Any] = []

    @property
    def keeps(self) -> bool:
        """Return whether it returns all that it got; if not, only an id can carry a vendor's state."""
        return True

    @cached_property
    def openai(self) -> openai.AsyncOpenAI:
        url = self.gateway.base_url
        return openai.AsyncOpenAI(base_url=url, api_key=self.key, max_retries=0)

    @cached_property
    def anthropic(self) -> anthropic.AsyncAnthropic:
        url = self.gateway.root_url
        return anthropic.AsyncAnthropic(base_url=url, api_key=self.key, max_retries=0)

    async def close(self) -> None:
        for name in {"openai", "anthropic"} & vars(self).keys():
            await getattr(self, name).close()

    def ask(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def answer(self, said: Said) -> None:
        """Append the results of all calls."""
        raise NotImplementedError

    def write(self, model: str, thinking: Thinking) -> Json:
        """Write a request; `thinking` is how a caller who knows the model makes it think."""
        raise NotImplementedError

    async def send(self, body: Json) -> Any:
        """Return the whole reply."""
        raise NotImplementedError

    def keep(self, whole: Any) -> Said:
        """Append a reply, an object of the SDK or JSON, to the history."""
        raise NotImplementedError


def dump(whole: Any) -> Any:
    return whole if isinstance(whole, dict) else whole.model_dump(warnings=False)


class WholeChatAgent(Agent):
    """It appends the message object, which has the vendors' members; of a stream, text and calls."""

    dialect = "chat"

    @property
    def keeps(self) -> bool:
        return not self.stream

    def answer(self, said: Said) -> None:
        self.history += [
            {"role": "tool", "tool_call_id": call.id, "content": run_tool(call)}
            for call in said.calls
        ]

    def write(self, model: str, thinking: Thinking) -> Json:
        function = {"name": TOOL, "description": DESCRIPTION, "parameters": SCHEMA}
        tools = [{"type": "function", "function": function}]
        body: Json = {"model": model, "messages": self.history, "tools": tools}
        return body | ({"reasoning_effort": EFFORT} if thinking else {})

    async def send(self, body: Json) -> Any:
        create = self.openai.chat.completions.create
        if not self.stream:
            return (await create(**body)).choices[0].message
        return gather([dump(chunk) async for chunk in await create(**body, stream=True)])

    def keep(self, whole: Any) -> Said:
        self.history.append(whole)
        return read_message(dump(whole))


class ChatAgent(WholeChatAgent):
    """It writes the assistant's turn anew, as most users do: role, content and calls."""

    @property
    def keeps(self) -> bool:
        return False

    def keep(self, whole: Any) -> Said:
        message = dump(whole)
        calls = [
            {name: call[name] for name in ("id", "type", "function")}
            for call in message.get("tool_calls") or []
        ]
        written = {"role": "assistant", "content": read_text(message["content"]) or None}
        self.history.append(written | ({"tool_calls": calls} if calls else {}))
        return read_message(message)


def gather(chunks: Sequence[Json]) -> Json:
    """Put a message together as users of OpenAI's SDK do: text, and calls by their index."""
    text, calls = "", dict[int, Json]()
    for choice in (choice for chunk in chunks for choice in chunk["choices"]):
        text += read_text(choice["delta"].get("content"))
        for part in choice["delta"].get("tool_calls") or []:
            function = part.get("function") or {}
            call = calls.setdefault(
                part["index"],
                {"id": "", "type": "function", "function": {"name": "", "arguments": ""}},
            )
            call["id"] = part.get("id") or call["id"]
            call["function"]["name"] += function.get("name") or ""
            call["function"]["arguments"] += function.get("arguments") or ""
    message = {"role": "assistant", "content": text or None}
    return message | ({"tool_calls": [*calls.values()]} if calls else {})


def read_message(message: Json) -> Said:
    calls = tuple(
        ToolCall(one["id"], one["function"]["name"], json.loads(one["function"]["arguments"]))
        for one in message.get("tool_calls") or []
    )
    return Said(read_text(message["content"]), calls)


def read_text(content: Any) -> str:
    """Read a chat content; Mistral's has parts, also with thoughts."""
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "") for part in content or [])


class MessagesAgent(Agent):
    dialect = "messages"

    def answer(self, said: Said) -> None:
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": run_tool(call)}
            for call in said.calls
        ]
        self.history.append({"role": "user", "content": results})

    def write(self, model: str, thinking: Thinking) -> Json:
        tools = [{"name": TOOL, "description": DESCRIPTION, "input_schema": SCHEMA}]
        body = {"model": model, "messages": self.history, "max_tokens": MAX_TOKENS, "tools": tools}
        if thinking == "enabled":
            return body | {"thinking": {"type": "enabled", "budget_tokens": MAX_TOKENS // 2}}
        return body | {"thinking": {"type": "adaptive"}, "output_config": {"effort": EFFORT}}

    async def send(self, body: Json) -> Any:
        if not self.stream:
            return (await self.anthropic.messages.create(**body)).content
        async with self.anthropic.messages.stream(**body) as stream:
            return (await stream.get_final_message()).content

    def keep(self, whole: Any) -> Said:
        self.history.append({"role": "assistant", "content": whole})
        blocks = [*map(dump, whole)]
        text = "".join(block["text"] for block in blocks if block["type"] == "text")
        calls = (block for block in blocks if block["type"] == "tool_use")
        return Said(text, tuple(ToolCall(one["id"], one["name"], one["input"]) for one in calls))


class ResponsesAgent(Agent):
    """It returns all items of the output, and asks for nothing beside the effort."""

    dialect = "responses"

    def answer(self, said: Said) -> None:
        self.history += [
            {"type": "function_call_output", "call_id": call.id, "output": run_tool(call)}
            for call in said.calls
        ]

    def write(self, model: str, thinking: Thinking) -> Json:
        del thinking
        function = {"name": TOOL, "description": DESCRIPTION, "parameters": SCHEMA}
        return {
            "model": model,
            "input": self.history,
            "max_output_tokens": MAX_TOKENS,
            "reasoning": {"effort": EFFORT, "summary": "auto"},
            "tools": [{"type": "function", "strict": True, **function}],
        }

    async def send(self, body: Json) -> Any:
        if not self.stream:
            return (await self.openai.responses.create(**body)).output
        async with self.openai.responses.stream(**body) as stream:
            return (await stream.get_final_response()).output

    def keep(self, whole: Any) -> Said:
        self.history += whole
        items = [*map(dump, whole)]
        told = (part for one in items if one["type"] == "message" for part in one["content"])
        calls = (one for one in items if one["type"] == "function_call")
        return Said(
            "".join(part["text"] for part in told),
            tuple(
                ToolCall(one["call_id"], one["name"], json.loads(one["arguments"])) for one in calls
            ),
        )


AGENTS: Final[tuple[type[Agent], ...]] = (ChatAgent, WholeChatAgent, MessagesAgent, ResponsesAgent)
HOW: Final = [(kind, stream) for kind in AGENTS for stream in (False, True)]
CITIES: Final = tuple(city for step in STEPS for city in step)
LEARNED: Final = "; ".join(f"{city}: sunny in {city}" for city in CITIES)
ALL_TURNS: Final = 4
"""Two turns with calls, one with what was learned, and one after another question."""


PRODUCT: Final = (pytest.mark.slow, pytest.mark.no_cover)
"""The marks of the full product: a plain run measures what its diagonal reaches."""


def each_agent(name: str, values: Sequence[str]) -> pytest.MarkDecorator:
    """Run a test with all agents, by JSON and by streams, each over all values.

    The full product is slow. A plain run has a diagonal: each agent and each value once or more.
    """
    return pytest.mark.parametrize(
        ("kind", "stream", name),
        [
            pytest.param(
                *(kind, stream, value),
                id=f"{kind.__name__} {'stream' if stream else 'json'} {value}",
                marks=() if (row - column) % len(HOW) == 0 else PRODUCT,
            )
            for row, (kind, stream) in enumerate(HOW)
            for column, value in enumerate(values)
        ],
    )


async def converse(agent: Agent, turns: Sequence[tuple[str, Thinking]]) -> list[Said]:
    """Play a conversation: each turn is asked of a model, which is made to think in its way."""
    agent.ask(QUESTIONS[0])
    told = []
    for model, thinking in turns:
        told.append(said := agent.keep(await agent.send(agent.write(model, thinking))))
        if said.calls:
            agent.answer(said)
        else:
            agent.ask(QUESTIONS[1])
    return told


def check_told(told: Sequence[Said]) -> None:
    """Check that each call arrived whole, and each result where it belongs."""
    assert [[call.arguments for call in one.calls] for one in told] == [
        *([{"city": city} for city in step] for step in STEPS),
        [],
        [],
    ]
    assert [one.text for one in told] == [OPENING, "", LEARNED, LEARNED]
    ids = [call.id for one in told for call in one.calls]
    assert len({*ids}) == len(CITIES)
