"""Agents that send only what is new: over each vendor, what it wants back comes back."""

from __future__ import annotations

from typing import Any, Final

import pytest

from tests.agents.loop import ALL_TURNS, PRODUCT, Agent, ResponsesAgent, check_told, converse, dump
from tests.agents.market import Market
from tests.agents.test_loops import NAMES, turns_of
from tests.agents.vendors.base import Thinking
from tests.support.content import Content, read_items
from tests.support.replies import Json

pytestmark = pytest.mark.filterwarnings("ignore:Pydantic serializer")  # for Mistral's parts


class ContinuingAgent(ResponsesAgent):
    """It names the response that it continues, as OpenAI's SDK for agents can be told to."""

    previous: str | None = None

    def write(self, model: str, thinking: Thinking) -> Json:
        return {**super().write(model, thinking), "previous_response_id": self.previous}

    async def send(self, body: Json) -> Any:
        whole: Any = await self.caller.send(self.clients, body, stream=self.stream)
        assert (whole.store, whole.previous_response_id) == (True, self.previous)
        self.previous, self.history = whole.id, []
        return whole.output

    def keep(self, given: Any) -> Content:
        return Content(*read_items(map(dump, given)))


class ReferringAgent(ResponsesAgent):
    """It sends the ids of the model's items, as Vercel's SDK does."""

    def keep(self, given: Any) -> Content:
        self.history += [{"type": "item_reference", "id": one.id} for one in given]
        return Content(*read_items(map(dump, given)))


HOW: Final = [
    (kind, stream) for kind in (ContinuingAgent, ReferringAgent) for stream in (False, True)
]


@pytest.mark.parametrize(
    ("kind", "stream", "name"),
    [
        pytest.param(*how, name, marks=() if (row - column) % len(HOW) == 0 else PRODUCT)
        for row, how in enumerate(HOW)
        for column, name in enumerate(NAMES)
    ],
)
async def test_a_loop(market: Market, kind: type[Agent], stream: bool, name: str) -> None:
    agent = market.meet(kind, stream=stream)
    check_told(await converse(agent, turns_of(*[name] * ALL_TURNS)))
    assert market.refusals == []
    assert market.recalled == [0, 1, 2, 2]
    sent = [visit.request for visit in market.visits]
    assert not any("previous_response_id" in one or one.get("store") for one in sent)
    assert "item_reference" not in str(sent)
