"""Which extras to take away: `python -m tests.without NAME...` prints these and all that need them, on one line.

Without names it prints groups, a line each, so that for any two extras some group has the first one and
lacks the second, unless it needs that: whatever an extra uses without saying so is then missed once. That
takes a third of the runs that taking each away by itself takes.
"""

import sys
from typing import Final

from gateway.extension import find_extras

NEEDS: Final = {name: {*one.needs} for name, one in find_extras().items()}


def add_needing(gone: set[str]) -> set[str]:
    while more := {name for name, needs in NEEDS.items() if needs & gone} - gone:
        gone = gone | more
    return gone


def find_groups() -> list[set[str]]:
    groups = list[set[str]]()
    left = {(kept, gone) for gone in NEEDS for kept in NEEDS.keys() - add_needing({gone})}
    while left:
        best, tried = set[tuple[str, str]](), set[str]()
        for name in NEEDS:
            more = add_needing(tried | {name})
            shown = {(kept, gone) for kept, gone in left if gone in more and kept not in more}
            if len(shown) > len(best):
                best, tried = shown, more
        groups.append(tried)
        left -= best
    return groups


for group in [add_needing({*sys.argv[1:]})] if sys.argv[1:] else find_groups():
    sys.stdout.write(" ".join(sorted(group)) + "\n")
