"""A served gateway for each test; passwords are hashed at little cost, but where the real one is tested."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.extras.console.kit import Console, open_console
from tests.extras.signins.conftest import cheap_passwords, password_cost  # noqa: F401 - fixtures
from tests.ledger.sql.conftest import books, clock, place  # noqa: F401 - fixtures


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as console:
        yield console
