"""Agents go on over each vendor: what it wants back comes back, and foreign turns end no conversation."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.agents.loop import (
    AGENTS,
    ALL_TURNS,
    PRODUCT,
    Agent,
    ResponsesAgent,
    check_told,
    converse,
    each_agent,
)
from tests.agents.market import MOVED, Market
from tests.agents.vendors import VENDORS
from tests.agents.vendors.base import Thinking
from tests.support.formats import CALLERS
from tests.support.process import RESPONSES

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer")  # for Mistral's parts
NAMES: Final = list(VENDORS)
needs_responses: Final = pytest.mark.skipif("responses" not in CALLERS, reason="it is an extra")


def turns_of(*names: str) -> list[tuple[str, Thinking]]:
    return [(f"{name}/0", VENDORS[name.removesuffix(MOVED)].thinking) for name in names]


@each_agent("name", NAMES)
async def test_a_loop(market: Market, kind: type[Agent], stream: bool, name: str) -> None:
    """A caller that sends back everything it received loses nothing the vendor sent.

    A chat message has a place for a chat vendor's members alone.
    """
    agent = market.meet(kind, stream=stream)
    told = await converse(agent, turns_of(*[name] * ALL_TURNS))
    assert market.refusals == []
    check_told(told)
    if agent.keeps and (kind.caller.dialect != "chat" or VENDORS[name].dialect == "chat"):
        assert market.recalled == [0, 1, 2, 2]


@pytest.mark.parametrize(
    ("kind", "first", "second"),
    [
        pytest.param(kind, first, second, marks=() if is_plain else PRODUCT)
        for row, first in enumerate(NAMES)
        for column, second in enumerate(NAMES)
        for number, kind in enumerate(AGENTS)
        for is_plain in [(column - row) % len(NAMES) == 1 + number]
        for turn, whose in [divmod(row + column, len(AGENTS))]
        if is_plain or (number == whose and row != column and (row < column) == turn % 2)
    ],
)
async def test_another_vendor_goes_on(
    market: Market, kind: type[Agent], first: str, second: str
) -> None:
    """The model changes at each turn, so that each vendor meets the other's turns beside its own.

    A pair is played by one agent in one of its orders, as each follows the other in both; half are streamed.
    """
    streams = NAMES.index(first) < NAMES.index(second)
    turns = turns_of(first, second, first, second)
    told = await converse(market.meet(kind, stream=streams), turns)
    assert market.refusals == []
    check_told(told)


@each_agent("name", NAMES)
async def test_a_provider_with_another_name_and_address_goes_on(
    market: Market, kind: type[Agent], stream: bool, name: str
) -> None:
    """State that cannot be opened any more is left out."""
    turns = turns_of(name, *[f"{name}{MOVED}"] * 3)
    told = await converse(market.meet(kind, stream=stream), turns)
    assert market.refusals == []
    check_told(told)


FORCED: Final[dict[str, Any]] = {
    "chat": "required",
    "messages": {"type": "any"},
    "responses": "required",
}
CLAUDES: Final = [name for name, vendor in VENDORS.items() if vendor.dialect == "messages"]


@pytest.mark.parametrize("name", CLAUDES)
@pytest.mark.parametrize("kind", [kind for kind in AGENTS if kind.caller.dialect != "messages"])
async def test_a_forced_call_is_made_without_thinking(
    market: Market, kind: type[Agent], name: str
) -> None:
    """Claude refuses both at once, which is the same request in no other dialect."""
    agent = market.meet(kind, stream=False)
    agent.ask("How is the weather?")
    body = agent.write(f"{name}/0", VENDORS[name].thinking)
    said = agent.keep(await agent.send(body | {"tool_choice": FORCED[kind.caller.dialect]}))
    assert market.refusals == []
    assert said.calls


@needs_responses
async def test_an_item_reference_is_told_by_the_setting_that_makes_it(market: Market) -> None:
    """Vercel's SDK sends references unless it is told that nothing is stored."""
    agent = market.meet(ResponsesAgent, stream=False)
    agent.ask("How is the weather?")
    agent.history.append({"type": "item_reference", "id": "fc_1"})
    body = agent.write("plain/0", "")
    reply = await market.gateway.post(RESPONSES, market.key, body)
    assert reply.status == 400
    assert "providerOptions.openai.store" in reply.json["error"]["message"]
    assert market.visits == []


@needs_responses
@pytest.mark.parametrize("kind", [kind for kind in AGENTS if kind.caller.dialect != "responses"])
async def test_a_small_limit_is_raised_to_the_least(market: Market, kind: type[Agent]) -> None:
    agent = market.meet(kind, stream=False)
    agent.ask("Hello")
    await agent.send(agent.write("openai-responses/0", "adaptive") | {"max_tokens": 5})
    assert market.refusals == []
