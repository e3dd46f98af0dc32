"""A served gateway for each test; passwords are hashed at little cost, but where the real one is tested."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from gateway.extras.console import passwords
from tests.extras.console.kit import Console, open_console
from tests.extras.console.session import LOG2_N, P


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash as `session.STORED` is hashed."""
    monkeypatch.setattr(passwords, "LOG2_N", LOG2_N)
    monkeypatch.setattr(passwords, "P", P)


@pytest.fixture(autouse=True)
def password_cost(cheap_passwords: None) -> None:
    """Override this where the real cost is wanted."""


@pytest.fixture
async def console(tmp_path: Path) -> AsyncIterator[Console]:
    async with open_console(tmp_path) as console:
        yield console
