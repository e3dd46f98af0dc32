"""Every test of the suite runs once for each implementation that has what the test needs.

On PostgreSQL it is slow, unless nothing else can play it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.contract.implementations import Implementation, find_able
from tests.ledger.contract.kit import Place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        able = find_able(metafunc.function)
        slow = {"postgres"} if len(able) > 1 else set()
        cases = [
            pytest.param(one, id=one.name, marks=pytest.mark.slow if one.name in slow else ())
            for one in able
        ]
        metafunc.parametrize("place", cases, indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Place]:
    implementation: Implementation = request.param
    with implementation.lend(request, tmp_path) as location:
        yield Place(implementation, location)
