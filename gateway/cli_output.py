"""What a command says: data on stdout, words on stderr; tables for people, JSON for tools."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO

from gateway.csv_text import printable

Json = dict[str, object] | list[dict[str, object]]


@dataclass(frozen=True, slots=True)
class Console:
    """The two streams of a command."""

    out: TextIO
    err: TextIO

    def print(self, data: str) -> None:
        """Data, on stdout, at once: what fails to be written fails here."""
        self.out.write(data if data.endswith("\n") else data + "\n")
        self.out.flush()

    def print_json(self, value: Json) -> None:
        """One JSON value; ASCII, so that it is the same bytes in every locale."""
        self.print(json.dumps(value, indent=2))

    def say(self, words: str) -> None:
        """Words for people, on stderr."""
        self.err.write(words + "\n")
        self.err.flush()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; figures stand to the right."""

    title: str
    right: bool = False


def render_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Rows under their titles, aligned, without trailing spaces."""
    lines = [[column.title for column in columns]]
    lines += [[printable(cell) for cell in row] for row in rows]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    )


def render_fields(fields: Sequence[tuple[str, str]]) -> str:
    """Names and values, one a line."""
    width = max(len(name) for name, _ in fields)
    return "\n".join(f"{name:<{width}}  {printable(value)}".rstrip() for name, value in fields)
