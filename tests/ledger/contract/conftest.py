"""Every test of the suite runs once for each implementation that has what the test needs.

SQLite's money rules are stated in Python; a database of an extra may state them in its own language.
Here each rule is played against all: balance, hold, cap, budget, cost and the rates of several nodes
in `played/`, also in test_concurrent_holds and test_audit. The runs with a database are slow.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.ledger.contract.implementations import Implementation, find_able, make_cases
from tests.ledger.contract.kit import Place


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "place" in metafunc.fixturenames:
        cases = make_cases(find_able(metafunc.function))
        metafunc.parametrize("place", cases, indirect=True)


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path, quick_polls: None) -> Iterator[Place]:
    del quick_polls
    implementation: Implementation = request.param
    with implementation.lend(request, tmp_path) as location:
        yield Place(implementation, location)
