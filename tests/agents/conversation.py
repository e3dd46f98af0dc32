"""Conversations of agents, turn by turn, and what they must have told in the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pytest

from tests.agents.loop import (
    QUESTIONS,
    Agent,
    ChatAgent,
    MessagesAgent,
    ResponsesAgent,
    Said,
    WholeChatAgent,
)
from tests.agents.sdks import Anthropic, OpenAIChat, OpenAIResponses
from tests.agents.vendors.base import OPENING, STEPS, Thinking

RAW: Final[tuple[type[Agent], ...]] = (ChatAgent, WholeChatAgent, MessagesAgent, ResponsesAgent)
SDKS: Final[tuple[type[Agent], ...]] = (OpenAIChat, OpenAIResponses, Anthropic)
HOW: Final = [
    (kind, stream)
    for kind in RAW + SDKS
    for stream in (False, True)
    if kind is not WholeChatAgent or not stream  # nobody gathers vendors' members by hand
]
CITIES: Final = tuple(city for step in STEPS for city in step)
LEARNED: Final = "; ".join(f"{city}: sunny in {city}" for city in CITIES)
ALL_TURNS: Final = 4
"""Two turns with calls, one with what was learned, and one after another question."""


def each_agent(
    name: str, values: Sequence[str], kinds: Sequence[type[Agent]] = RAW + SDKS
) -> pytest.MarkDecorator:
    """Run a test with these agents, by JSON and by streams, each over all values.

    The full product is slow. A plain run has a diagonal: each agent and each value once or more.
    """
    pairs = [pair for pair in HOW if pair[0] in kinds]
    return pytest.mark.parametrize(
        ("kind", "stream", name),
        [
            pytest.param(
                *(kind, stream, value),
                id=f"{kind.__name__} {'stream' if stream else 'json'} {value}",
                marks=() if (row - column) % len(pairs) == 0 else pytest.mark.slow,
            )
            for row, (kind, stream) in enumerate(pairs)
            for column, value in enumerate(values)
        ],
    )


async def converse(agent: Agent, turns: Sequence[tuple[str, Thinking]]) -> list[Said]:
    """Play a conversation: each turn is asked of a model, which is made to think in its way."""
    agent.ask(QUESTIONS[0])
    told = []
    try:
        for model, thinking in turns:
            whole = await agent.send(agent.write(model, thinking))
            told.append(said := agent.keep(whole))
            if said.calls:
                agent.answer(said)
            else:
                agent.ask(QUESTIONS[1])
    finally:
        await agent.close()
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
