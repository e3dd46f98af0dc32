"""The errors of a configuration file: each names its place, and all are told at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import chain
from typing import Final

MAX_TOLD: Final = 10
"""Problems that are told; the rest is counted, as one mistake can cause many."""


class ConfigError(Exception):
    """The configuration is invalid. Each problem names file, table and key and says what to do."""

    def __init__(self, *problems: str) -> None:
        super().__init__(*problems)
        self.problems = problems

    def __str__(self) -> str:
        more = len(self.problems) - MAX_TOLD
        return "\n".join((*self.problems[:MAX_TOLD], *([f"and {more} more"] if more > 0 else [])))


class Problems:
    """Collects the errors of parts that are read one after the other."""

    def __init__(self, tables: Iterable[str] = ("",)) -> None:
        """`tables`: the order in which their problems are told."""
        self._by_table: dict[str, list[str]] = {table: [] for table in tables}

    @contextmanager
    def collect(self, table: str = "") -> Iterator[None]:
        """Keep the problems of a ConfigError, and go on behind the `with` statement."""
        try:
            yield
        except ConfigError as error:
            self._by_table.setdefault(table, []).extend(error.problems)

    def __bool__(self) -> bool:
        return any(self._by_table.values())

    def raise_all(self) -> None:
        """Raise ConfigError if there was any problem."""
        if self:
            raise ConfigError(*chain.from_iterable(self._by_table.values()))


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a file, for errors."""

    file: str
    table: str = ""
    within: str = ""
    """The key of an inline table, with a trailing dot."""

    def error(self, key: str, problem: str) -> ConfigError:
        """Return the error to raise for `key`; an empty key means the table itself."""
        named = " ".join(part for part in (self.table, self.within + key) if part)
        return ConfigError(
            f"{self.file}: {named}: {problem}" if named else f"{self.file}: {problem}"
        )
