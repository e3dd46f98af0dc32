"""Fixtures for the tests of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.api.edges import COST_KINDS, KINDS, RULED_KINDS
from tests.api.scene import RICH
from tests.support import running as runs
from tests.support.config import Places
from tests.support.pairs import Clients
from tests.support.running import Running
from tests.support.stage import Stage


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory, places: Places) -> Iterator[Running]:
    """A gateway whose models have prices of every kind: one a module, as some tests spend all money."""
    kinds = {**KINDS, **RULED_KINDS, **COST_KINDS}
    started = runs.start(tmp_path_factory.mktemp("priced"), places, seeds=RICH, kinds=kinds)
    yield started
    started.prove_books()
    started.gateway.stop()


@pytest.fixture
async def clients(stage: Stage) -> AsyncIterator[Clients]:
    """The real SDKs of the caller who has plenty of money."""
    made = Clients(stage)
    yield made
    await made.close()
