"""Every test of the suite runs once for each implementation."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger.contract.implementations import IMPLEMENTATIONS
from tests.ledger.contract.kit import Place


@pytest.fixture(params=IMPLEMENTATIONS, ids=lambda one: one.name)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path / "gateway.db")
