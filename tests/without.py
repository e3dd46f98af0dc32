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
NAMES: Final = sorted(NEEDS)
STEPS: Final = 10_000
"""Changes that one search tries: half a second; those that end well mostly need fewer."""
SEARCHES: Final = 5
"""Searches for one number of groups before one group more is tried."""
START_WARMTH: Final = 1.0
END_WARMTH: Final = 0.05
"""How many pairs worse a change may well be, at the first step and at the last: it leads out of dead ends."""


def add_needing(gone: set[str]) -> set[str]:
    while more := {name for name, needs in NEEDS.items() if needs & gone} - gone:
        gone = gone | more
    return gone


# Sets of extras are bits of a number here, in the order of NAMES: a search compares millions of them.
NEEDING: Final = [sum(1 << NAMES.index(one) for one in add_needing({name})) for name in NAMES]


def find_gone(chosen: int) -> int:
    """Return the extras that are gone: those chosen, and those that need them."""
    gone = 0
    for number, needing in enumerate(NEEDING):
        if chosen >> number & 1:
            gone |= needing
    return gone


def count_unseen(groups: list[int]) -> int:
    """Count the pairs of which no group has the first extra and lacks the second."""
    unseen = [(1 << len(NAMES)) - 1 & ~needing for needing in NEEDING]
    for gone in groups:
        for lost in range(len(NAMES)):
            if gone >> lost & 1:
                unseen[lost] &= gone
    return sum(map(int.bit_count, unseen))


def search(size: int, seed: int) -> list[int] | None:
    """Change one choice at a time; keep what is no worse, and at first also what is a little worse."""
    draw, chosen = random.Random(seed), [0] * size
    for number in range(len(NAMES)):
        for _ in range(2):
            chosen[draw.randrange(size)] |= 1 << number
    groups = [find_gone(one) for one in chosen]
    unseen = count_unseen(groups)
    for step in range(STEPS):
        if not unseen:
            return groups
        changed = draw.randrange(size)
        choice = chosen[changed] ^ 1 << draw.randrange(len(NAMES))
        tried = [*groups]
        tried[changed] = find_gone(choice)
        worse = count_unseen(tried) - unseen
        warmth = max(END_WARMTH, START_WARMTH * (1 - step / STEPS))
        if worse <= 0 or draw.random() < math.exp(-worse / warmth):
            chosen[changed], groups, unseen = choice, tried, unseen + worse
    return None


def find_groups() -> list[set[str]]:
    """Find few groups: three more than an extra's number has bits are too few, by all searches."""
    for number in count(len(NEEDS).bit_length() + 4):
        for seed in range(SEARCHES):
            if (groups := search(number, seed)) is not None:
                return [
                    {one for bit, one in enumerate(NAMES) if gone >> bit & 1} for gone in groups
                ]
    raise AssertionError


for group in [add_needing({*sys.argv[1:]})] if sys.argv[1:] else find_groups():
    sys.stdout.write(" ".join(sorted(group)) + "\n")
