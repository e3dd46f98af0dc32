"""Names of accounts that people may take for others."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gateway.ledger.checks import find_likeness

_ALIKE_SCRIPTS: Final = ("LATIN", "CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC")
"""Scripts with letters that look the same; their names begin the names of their letters."""


def note_names(names: Sequence[str], known: Iterable[str]) -> Iterator[str]:
    """Yield a note on each name that mixes scripts, or looks like another name that is `known`."""
    alike: defaultdict[str, list[str]] = defaultdict(list)
    for one in known:
        alike[find_likeness(one)].append(one)
    for name in names:
        others = [one for one in alike[find_likeness(name)] if one != name]
        if mixture := find_mixture(name):
            yield f"the name '{name}' mixes letters of {mixture}, which look alike."
        elif others:
            yield f"there is an account '{others[-1]}', which looks like '{name}'."


def find_mixture(name: str) -> str | None:
    """Return the scripts of a name that mixes some whose letters look alike, as in "аlice"."""
    firsts = {unicodedata.name(one, "").partition(" ")[0] for one in name if one.isalpha()}
    mixed = [one.capitalize() for one in _ALIKE_SCRIPTS if one in firsts]
    return " and ".join(mixed) if len(mixed) > 1 else None
