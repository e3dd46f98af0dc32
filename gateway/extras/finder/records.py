"""Records of searches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from gateway.ledger.sql.books import Books

MOST: Final = 5
"""The most that is shown of a kind: a search that finds more is refined, or done on the page of that kind."""


@dataclass(frozen=True, slots=True)
class Found:
    name: str
    note: str
    """Tells those of one name apart."""
    path: str
    """The page that shows it."""


@dataclass(frozen=True, slots=True)
class Finder:
    """A search by operators in what an extra keeps. The extra adds it to this one by `Extra.adds`."""

    kind: str
    """Names what it finds, such as `Codes`."""
    find: Callable[[Books, str], Sequence[Found]]
    """Returns what a text means, `MOST` at most; nothing of it is secret."""
