"""All scripted vendors at one address, told apart by the first part of the path."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from tests.agents.loop import Agent
from tests.agents.vendors import VENDORS
from tests.agents.vendors.base import Refused
from tests.support.config import PATIENT, Kind, Places
from tests.support.process import GatewayProcess
from tests.support.replies import Json
from tests.support.upstream import Exchange, Script

MOVED: Final = "-moved"
"""The end of the name of a provider that is the same vendor under another name and address."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A request as a vendor got it, and what it thought of it."""

    vendor: str
    request: Json
    refusal: str = ""
    recalled: int = 0


def name_by_path(place: str, model: str) -> str:
    del model
    return place.removesuffix(MOVED)


@dataclass(slots=True)
class Market:
    """The vendors behind a gateway, and their visits."""

    gateway: GatewayProcess
    key: str
    find: Callable[[str, str], str] = name_by_path
    """The vendor's name by the first part of the path and the model's name."""
    visits: list[Visit] = field(default_factory=list)
    agents: list[Agent] = field(default_factory=list)

    def meet(self, kind: type[Agent], *, stream: bool) -> Agent:
        self.agents.append(kind(self.gateway, self.key, stream=stream))
        return self.agents[-1]

    async def close(self) -> None:
        for agent in self.agents:
            await agent.clients.close()

    def serve(self, exchange: Exchange) -> Script:
        """Let the vendor answer."""
        request = exchange.json
        name = self.find(exchange.target.split("/")[1], request["model"])
        try:
            answer = VENDORS[name].answer(request)
        except Refused as refused:
            self.visits.append(Visit(name, request, str(refused)))
            return refused.script
        self.visits.append(Visit(name, request, recalled=answer.recalled))
        return answer.script

    @property
    def refusals(self) -> list[str]:
        return [f"{one.vendor}: {one.refusal}" for one in self.visits if one.refusal]

    @property
    def recalled(self) -> list[int]:
        return [one.recalled for one in self.visits]


NAMES: Final = [f"{name}{end}" for name in VENDORS for end in ("", MOVED)]


def make_kinds() -> dict[str, Kind]:
    """Make a kind of model for each vendor, under each of its names."""
    kinds = {}
    for name in NAMES:
        vendor = VENDORS[name.removesuffix(MOVED)]
        options = f"{PATIENT}\n{vendor.provider}"
        kinds[name] = Kind((name,), 1, options, (vendor.dialect,), vendor.model)
    return kinds


def make_places(port: int) -> Places:
    urls = {name: f"http://127.0.0.1:{port}/{name}/v1" for name in NAMES}
    return Places(urls, {name: f"upstream-key-{name}-0123456789" for name in urls})
