"""Requests of agents that vendors refuse as they are: forced calls, small limits, references."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.agents.loop import RAW, Agent, ResponsesAgent
from tests.agents.market import Market
from tests.agents.vendors import VENDORS
from tests.support.process import RESPONSES

FORCED: Final[dict[str, Any]] = {
    "chat": "required",
    "messages": {"type": "any"},
    "responses": "required",
}
CLAUDES: Final = [name for name, vendor in VENDORS.items() if vendor.dialect == "messages"]


@pytest.mark.parametrize("name", CLAUDES)
@pytest.mark.parametrize("kind", [kind for kind in RAW if kind.dialect != "messages"])
async def test_a_forced_call_is_made_without_thinking(
    market: Market, kind: type[Agent], name: str
) -> None:
    """Claude refuses both at once, which is the same request in no other dialect."""
    agent = market.meet(kind, stream=False)
    agent.ask("How is the weather?")
    body = agent.write(f"{name}/0", VENDORS[name].thinking)
    said = agent.keep(await agent.send(body | {"tool_choice": FORCED[kind.dialect]}))
    assert market.refusals == []
    assert said.calls


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


@pytest.mark.parametrize("kind", [kind for kind in RAW if kind.dialect != "responses"])
async def test_a_small_limit_is_raised_to_the_least(market: Market, kind: type[Agent]) -> None:
    agent = market.meet(kind, stream=False)
    agent.ask("Hello")
    await agent.send(agent.write("openai-responses/0", "adaptive") | {"max_tokens": 5})
    assert market.refusals == []
