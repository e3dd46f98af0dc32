"""Agents go on over each vendor: what it wants back comes back, and foreign turns end no conversation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from tests.agents.market import MOVED, Market
from tests.agents.sdks import Anthropic, OpenAIChat, OpenAIResponses
from tests.agents.vendors import VENDORS
from tests.agents.vendors.base import OPENING, STEPS
from tests.support.running import Running

RAW: Final = (ChatAgent, WholeChatAgent, MessagesAgent, ResponsesAgent)
SDKS: Final = (OpenAIChat, OpenAIResponses, Anthropic)
CITIES: Final = tuple(city for step in STEPS for city in step)
LEARNED: Final = "; ".join(f"{city}: sunny in {city}" for city in CITIES)
ALL_TURNS: Final = 4
"""Two turns with calls, one with what was learned, and one after another question."""

each_stream = pytest.mark.parametrize("stream", [False, True], ids=["json", "stream"])
each_raw = pytest.mark.parametrize("kind", RAW)
each_agent = pytest.mark.parametrize("kind", RAW + SDKS)
each_vendor = pytest.mark.parametrize("name", VENDORS)

Make = Callable[..., Agent]


def skip_streams_of_whole_messages(kind: Make, *, stream: bool) -> None:
    if kind is WholeChatAgent and stream:
        pytest.skip("nobody gathers vendors' members by hand")


async def converse(agent: Agent, names: Sequence[str]) -> list[Said]:
    """Play a conversation whose turns are made by these vendors, one after the other."""
    agent.ask(QUESTIONS[0])
    told = []
    try:
        for name in names:
            vendor = VENDORS[name.removesuffix(MOVED)]
            whole = await agent.send(agent.write(f"{name}/0", vendor.thinking))
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


@each_vendor
@each_agent
@each_stream
async def test_a_loop(
    running: Running, market: Market, kind: Make, name: str, stream: bool
) -> None:
    """Where the caller returns all that it got, the vendor finds all that it gave."""
    skip_streams_of_whole_messages(kind, stream=stream)
    agent = kind(running.gateway, running.callers["rich"].key, stream=stream)
    told = await converse(agent, [name] * ALL_TURNS)
    assert market.refusals == []
    check_told(told)
    if agent.keeps:
        assert market.recalled == [0, 1, 2, 2]


@pytest.mark.parametrize("second", VENDORS)
@pytest.mark.parametrize("first", VENDORS)
@each_raw
@each_stream
async def test_another_vendor_goes_on(
    running: Running, market: Market, kind: Make, first: str, second: str, stream: bool
) -> None:
    """The model changes at each turn, so that each vendor meets the other's turns beside its own."""
    skip_streams_of_whole_messages(kind, stream=stream)
    agent = kind(running.gateway, running.callers["rich"].key, stream=stream)
    told = await converse(agent, [first, second] * (ALL_TURNS // 2))
    assert market.refusals == []
    check_told(told)


@each_vendor
@each_raw
@each_stream
async def test_a_provider_with_another_name_and_address_goes_on(
    running: Running, market: Market, kind: Make, name: str, stream: bool
) -> None:
    """What cannot be opened any more is left out."""
    skip_streams_of_whole_messages(kind, stream=stream)
    agent = kind(running.gateway, running.callers["rich"].key, stream=stream)
    moved = f"{name}{MOVED}"
    told = await converse(agent, [name, moved, moved, moved])
    assert market.refusals == []
    check_told(told)
