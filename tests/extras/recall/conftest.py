"""A gateway that keeps responses, in front of all scripted vendors and of plain providers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from tests.agents.conftest import market
from tests.agents.market import make_kinds, make_places
from tests.support import running as runs
from tests.support.config import KINDS
from tests.support.running import Running
from tests.support.seed import Seed
from tests.support.upstream import port_of

__all__ = ["market"]

OVER: Final = {
    f"over-{name}": replace(KINDS[name], count=1) for name in ("plain", "messages", "responses")
}

VENDORS: Final = ("claude-budget", "deepseek", "openai-responses")
"""Those that the clients meet, one of each dialect."""
REASONS: Final = "gpt-5-"
"""The beginning of a name by which Agno takes a model for one that reasons, and continues responses."""


@pytest.fixture(scope="session")
def shared(
    tmp_path_factory: pytest.TempPathFactory, listeners: dict[str, socket.socket]
) -> Iterator[Running]:
    """The gateway of these tests, in the place of the one that others share."""
    port = port_of(listeners["alpha"])
    places, alpha = make_places(port), f"http://127.0.0.1:{port}/v1"
    places = replace(
        places,
        urls={**places.urls, "alpha": alpha},
        secrets={**places.secrets, "alpha": "upstream-key-alpha-0123456789"},
    )
    made = make_kinds()
    reasoning = {f"{REASONS}{name}": made[name] for name in VENDORS}
    seeds, kinds = (Seed("rich", 10**15), Seed("other")), {**made, **reasoning, **OVER}
    folder = tmp_path_factory.mktemp("recall")
    running = runs.start(folder, places, seeds=seeds, kinds=kinds, extras="")
    yield running
    running.gateway.stop()
