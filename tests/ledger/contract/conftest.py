"""Every test of the suite runs once for each implementation that has what the test needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.ledger.contract.implementations import find_able
from tests.ledger.contract.kit import Place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        able = find_able(metafunc.function)
        metafunc.parametrize("place", able, indirect=True, ids=[one.name for one in able])


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(request.param, tmp_path / "gateway.db")
