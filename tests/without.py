"""Which extras to take away: `python -m tests.without NAME...` prints these and all that need them, on one line.

Without names it prints groups, a line each, so that for any two extras some group has the first one and
lacks the second, unless it needs that: whatever an extra uses without saying so is then missed once. Ten
groups do for all.
"""

import math
import random
import sys
from itertools import count
from typing import Final

from gateway.extension import find_extras

NEEDS: Final = {name: {*one.needs} for name, one in find_extras().items()}
STEPS: Final = 10_000
"""Changes that one search tries: a second; those that end well mostly need fewer."""
SEARCHES: Final = 5
"""Searches for one number of groups before one group more is tried."""
START_WARMTH: Final = 1.0
END_WARMTH: Final = 0.05
"""How many pairs worse a change may well be, at the first step and at the last: it leads out of dead ends."""


def add_needing(gone: set[str]) -> set[str]:
    while more := {name for name, needs in NEEDS.items() if needs & gone} - gone:
        gone = gone | more
    return gone


NEEDING: Final = {name: add_needing({name}) for name in NEEDS}


def list_gone(chosen: dict[str, int]) -> dict[str, int]:
    """Return the groups that lack each extra, as bits: those chosen, and those that lack what it needs."""
    gone = dict.fromkeys(NEEDS, 0)
    for name, groups in chosen.items():
        for other in NEEDING[name]:
            gone[other] |= groups
    return gone


PAIRS: Final = [(kept, lost) for lost in NEEDS for kept in NEEDS.keys() - NEEDING[lost]]


def count_unseen(chosen: dict[str, int]) -> int:
    """Count the pairs of which no group has the first extra and lacks the second."""
    gone = list_gone(chosen)
    return sum(not gone[lost] & ~gone[kept] for kept, lost in PAIRS)


def search(groups: int, seed: int) -> dict[str, int] | None:
    """Change one choice at a time; keep what is no worse, and at first also what is a little worse."""
    draw, names = random.Random(seed), sorted(NEEDS)
    chosen = {name: 1 << draw.randrange(groups) | 1 << draw.randrange(groups) for name in names}
    unseen = count_unseen(chosen)
    for step in range(STEPS):
        if not unseen:
            return chosen
        name = draw.choice(names)
        changed = chosen | {name: chosen[name] ^ 1 << draw.randrange(groups)}
        worse = count_unseen(changed) - unseen
        warmth = max(END_WARMTH, START_WARMTH * (1 - step / STEPS))
        if worse <= 0 or draw.random() < math.exp(-worse / warmth):
            chosen, unseen = changed, unseen + worse
    return None


def find_groups() -> list[set[str]]:
    """Find few groups: three more than an extra's number has bits are too few, by all searches."""
    for groups in count(len(NEEDS).bit_length() + 4):
        for seed in range(SEARCHES):
            if (chosen := search(groups, seed)) is not None:
                gone = list_gone(chosen)
                return [{one for one in gone if gone[one] >> bit & 1} for bit in range(groups)]
    raise AssertionError


for group in [add_needing({*sys.argv[1:]})] if sys.argv[1:] else find_groups():
    sys.stdout.write(" ".join(sorted(group)) + "\n")
