"""Every test of the suite runs once for each implementation that has what the test needs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.contract.implementations import Implementation, find_able
from tests.ledger.contract.kit import Place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        able = find_able(metafunc.function)
        metafunc.parametrize("place", able, indirect=True, ids=[one.name for one in able])


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    implementation: Implementation = request.param
    with implementation.lend(request, tmp_path) as location:
        yield Place(implementation, location)
