"""A gateway killed at random instants loses no reply and charges none twice.

The full run is `python -m tests.long kill --kills 200`.
"""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.long import killing

KILLS = 5


@pytest.mark.slow
async def test_kills_at_random_instants_lose_and_double_nothing(tmp_path: Path) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    figures = await killing.run(tmp_path, kills=KILLS, seed=seed, streams=20, others=20)
    print(figures)
    assert figures.ok, (figures.lost, figures.doubled, figures.wrong)
    assert figures.kills == KILLS
    assert figures.complete > 0
    assert figures.interrupted > 0
