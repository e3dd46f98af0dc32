"""Agents: callers that keep a conversation by their SDK, and answer the calls of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from tests.agents.vendors.base import OPENING, STEPS, TOOL, Thinking
from tests.support.accumulated import accumulate
from tests.support.content import Content, ToolCall, of_completion, read_blocks, read_items
from tests.support.formats import CALLERS
from tests.support.pairs import CHAT_CALLER, MESSAGES_CALLER, RESPONSES_CALLER, Caller
from tests.support.process import GatewayProcess
from tests.support.replies import Json
from tests.support.sdks import Clients

SCHEMA: Final = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
DESCRIPTION: Final = "Tell the weather in a city."
FUNCTION: Final = {"name": TOOL, "description": DESCRIPTION, "parameters": SCHEMA}
QUESTIONS: Final = ("How is the weather in Köln, Oslo and Bergen?", "And what did you learn?")
MAX_TOKENS: Final = 8000
EFFORT: Final = "high"


def run_tool(call: ToolCall) -> str:
    assert call.name == TOOL
    return f"sunny in {call.arguments['city']}"


class Agent:
    """A caller of one dialect by its vendor's SDK."""

    caller: Caller
    part: str = ""
    """The part of a reply that belongs into the history."""
    keeps = True
    """Whether it returns all that it got; if not, only an id can carry a vendor's state."""

    def __init__(self, gateway: GatewayProcess, key: str, *, stream: bool) -> None:
        self.clients = Clients(gateway, key)
        self.stream = stream
        self.history: list[Any] = []

    def ask(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})

    def answer(self, told: Content) -> None:
        """Append the results of all calls."""
        self.history += [self.make_result(call.id, run_tool(call)) for call in self.run(told)]

    def run(self, told: Content) -> list[ToolCall]:
        """Return the calls in the order in which they ended; agents run those of a turn at once."""
        return [*told.calls][::-1] if self.stream else [*told.calls]

    def make_result(self, call_id: str, result: str) -> Json:
        raise NotImplementedError

    def write(self, model: str, thinking: Thinking) -> Json:
        """Write a request; `thinking` is how a caller who knows the model makes it think."""
        raise NotImplementedError

    async def send(self, body: Json) -> Any:
        """Return the reply's part that belongs into the history."""
        whole = await self.caller.send(self.clients, body, stream=self.stream)
        return getattr(whole, self.part)

    def keep(self, given: Any) -> Content:
        """Append that part, an object of the SDK or JSON, to the history."""
        raise NotImplementedError

    def go_on(self, given: Any) -> Content:
        """Keep a reply's part, and answer its calls or ask another question."""
        told = self.keep(given)
        if told.calls:
            self.answer(told)
        else:
            self.ask(QUESTIONS[1])
        return told


def dump(given: Any) -> Any:
    return given if isinstance(given, dict) else given.model_dump(warnings=False)


class WholeChatAgent(Agent):
    """It appends the message object, which has the vendors' members; of a stream, text and calls."""

    caller = CHAT_CALLER

    def __init__(self, gateway: GatewayProcess, key: str, *, stream: bool) -> None:
        super().__init__(gateway, key, stream=stream)
        self.keeps = not stream

    def make_result(self, call_id: str, result: str) -> Json:
        return {"role": "tool", "tool_call_id": call_id, "content": result}

    def write(self, model: str, thinking: Thinking) -> Json:
        tools = [{"type": "function", "function": FUNCTION}]
        body: Json = {"model": model, "messages": self.history, "tools": tools}
        return body | ({"reasoning_effort": EFFORT} if thinking else {})

    async def send(self, body: Json) -> Any:
        create = self.clients.chat.chat.completions.create
        if not self.stream:
            return (await create(**body)).choices[0].message
        return gather([dump(chunk) async for chunk in await create(**body, stream=True)])

    def keep(self, given: Any) -> Content:
        self.history.append(given)
        return of_completion({"choices": [{"index": 0, "message": dump(given)}]})


class ChatAgent(WholeChatAgent):
    """It writes the assistant's turn anew, as most users do: role, content and calls."""

    def __init__(self, gateway: GatewayProcess, key: str, *, stream: bool) -> None:
        super().__init__(gateway, key, stream=stream)
        self.keeps = False

    def keep(self, given: Any) -> Content:
        return super().keep(gather([{"choices": [{"index": 0, "delta": dump(given)}]}]))


def gather(chunks: Sequence[Json]) -> Json:
    """Put a message together as users of OpenAI's SDK do: text, and calls by their index."""
    said = accumulate(chunks).choices[0]
    calls = [
        {
            "id": one.id,
            "type": "function",
            "function": {"name": one.name, "arguments": one.arguments},
        }
        for one in said.tool_calls.values()
    ]
    message = {"role": "assistant", "content": said.text or None}
    return message | ({"tool_calls": calls} if calls else {})


class MessagesAgent(Agent):
    caller = MESSAGES_CALLER
    part = "content"

    def answer(self, told: Content) -> None:
        self.history.append({"role": "user", "content": []})
        for call in self.run(told):
            result = {"type": "tool_result", "tool_use_id": call.id, "content": run_tool(call)}
            self.history[-1]["content"].append(result)

    def write(self, model: str, thinking: Thinking) -> Json:
        tools = [{"name": TOOL, "description": DESCRIPTION, "input_schema": SCHEMA}]
        body = {"model": model, "messages": self.history, "max_tokens": MAX_TOKENS, "tools": tools}
        if thinking == "enabled":
            return body | {"thinking": {"type": "enabled", "budget_tokens": MAX_TOKENS // 2}}
        return body | {"thinking": {"type": "adaptive"}, "output_config": {"effort": EFFORT}}

    def keep(self, given: Any) -> Content:
        self.history.append({"role": "assistant", "content": given})
        return Content(*read_blocks([*map(dump, given)]))


class ResponsesAgent(Agent):
    """It returns all items of the output, and asks for nothing beside the effort."""

    caller = RESPONSES_CALLER
    part = "output"

    def make_result(self, call_id: str, result: str) -> Json:
        return {"type": "function_call_output", "call_id": call_id, "output": result}

    def write(self, model: str, thinking: Thinking) -> Json:
        del thinking
        return {
            "model": model,
            "input": self.history,
            "max_output_tokens": MAX_TOKENS,
            "reasoning": {"effort": EFFORT, "summary": "auto"},
            "tools": [{"type": "function", "strict": True, **FUNCTION}],
        }

    def keep(self, given: Any) -> Content:
        self.history += given
        return Content(*read_items(map(dump, given)))


AGENTS: Final[tuple[type[Agent], ...]] = tuple(
    one
    for one in (ChatAgent, WholeChatAgent, MessagesAgent, ResponsesAgent)
    if one.caller.dialect in CALLERS
)
HOW: Final = [(kind, stream) for kind in AGENTS for stream in (False, True)]
CITIES: Final = tuple(city for step in STEPS for city in step)
LEARNED: Final = "; ".join(f"{city}: sunny in {city}" for city in CITIES)
ALL_TURNS: Final = 4
"""Two turns with calls, one with what was learned, and one after another question."""


PRODUCT: Final = (pytest.mark.daily, pytest.mark.no_cover)
"""The marks of the full product: a plain run measures what its diagonal reaches."""


def each_agent(name: str, values: Sequence[str]) -> pytest.MarkDecorator:
    """Run a test with all agents, by JSON and by streams, each over all values.

    The full product runs daily. A plain run has a diagonal: each agent and each value once or more.
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


async def converse(agent: Agent, turns: Sequence[tuple[str, Thinking]]) -> list[Content]:
    """Play a conversation: each turn is asked of a model, which is made to think in its way."""
    agent.ask(QUESTIONS[0])
    return [
        agent.go_on(await agent.send(agent.write(model, thinking))) for model, thinking in turns
    ]


def check_printed(out: str) -> None:
    """Check a script's loops, whole and streamed: some clients join the texts of all turns."""
    told = [line for line in out.replace(OPENING, "").splitlines() if line.endswith(LEARNED)]
    assert told, out
    assert told == [f"TOLD {LEARNED}", f"STREAMED {LEARNED}"] * (len(told) // 2), out


def check_told(told: Sequence[Content]) -> None:
    """Check that each call arrived whole, and each result where it belongs."""
    assert [[call.arguments for call in one.calls] for one in told] == [
        *([{"city": city} for city in step] for step in STEPS),
        [],
        [],
    ]
    assert [one.text for one in told] == [OPENING, "", LEARNED, LEARNED]
    ids = [call.id for one in told for call in one.calls]
    assert len({*ids}) == len(CITIES)
