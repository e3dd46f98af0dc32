"""A gateway in front of all scripted vendors."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator

import pytest

from tests.agents.market import Market, make_kinds, make_places
from tests.support import running as runs
from tests.support.running import Running
from tests.support.seed import Seed
from tests.support.upstream import ScriptedUpstream, port_of


@pytest.fixture(scope="session")
def shared(
    tmp_path_factory: pytest.TempPathFactory, listeners: dict[str, socket.socket]
) -> Iterator[Running]:
    """The gateway of these tests, in the place of the one that others share."""
    folder = tmp_path_factory.mktemp("agents")
    places = make_places(port_of(listeners["alpha"]))
    running = runs.start(folder, places, seeds=(Seed("rich", 10**15),), kinds=make_kinds())
    yield running
    running.gateway.stop()


@pytest.fixture
async def market(running: Running, alpha: ScriptedUpstream) -> AsyncIterator[Market]:
    made = Market(running.gateway, running.callers["rich"].key)
    alpha.always(made.serve)
    yield made
    await made.close()
