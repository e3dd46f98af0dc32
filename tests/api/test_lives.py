"""Random lives of completions keep the promises of every life."""

from __future__ import annotations

import random
import time

from tests.api.lives import play_lives

LIVES = 3000


def test_every_life_ends_once_and_settles_once_and_all_endings_are_reached() -> None:
    """One settlement, one release of the hold, last bytes after the commit, nothing after them."""
    seed = random.SystemRandom().randrange(10**9)
    started = time.monotonic()
    report = play_lives(seed, LIVES)
    print(f"seed {seed}, {time.monotonic() - started:.1f} s\n{report}")
    assert not report.broken, report.broken[0].describe()
    assert not report.unreached
