"""Random lives of completions keep the promises of every life."""

from __future__ import annotations

import random
import time

import pytest

from tests.api.lives import play_lives
from tests.api.lives.report import Report

LIVES = 400


def play(lives: int) -> Report:
    """One settlement, one release of the hold, last bytes after the commit, nothing after them."""
    seed = random.SystemRandom().randrange(10**9)
    started = time.monotonic()
    report = play_lives(seed, lives)
    print(f"seed {seed}, {time.monotonic() - started:.1f} s\n{report}")
    assert not report.broken, report.broken[0].describe()
    return report


def test_every_life_ends_once_and_settles_once() -> None:
    play(LIVES)


@pytest.mark.slow
def test_all_endings_are_reached() -> None:
    assert not play(10 * LIVES).unreached
