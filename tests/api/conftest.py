"""Fixtures for the tests of the API."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from tests.support.sdks import Clients
from tests.support.stage import Stage


@pytest.fixture
async def clients(stage: Stage) -> AsyncIterator[Clients]:
    """The real SDKs of the caller who has plenty of money."""
    made = Clients(stage.gateway, stage.key)
    yield made
    await made.close()
