"""Write data to stdout and messages to stderr: tables for people, JSON for tools."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO, TypeVar

from gateway.admin import csv_text
from gateway.money import align_points

Json = dict[str, object] | list[dict[str, object]]
Row = TypeVar("Row")
Columns = tuple[tuple[str, Callable[[Row], str]], ...]
"""The title and the cell of each column. `{}` in a title is the currency of a column of amounts."""


@dataclass(frozen=True, slots=True)
class Output:
    """The output streams of a command."""

    out: TextIO
    err: TextIO

    def print(self, data: str) -> None:
        """Write data to stdout and flush, so that a failed write raises here."""
        self.out.write(data if data.endswith("\n") else data + "\n")
        self.out.flush()

    def print_json(self, value: Json) -> None:
        """Write one JSON value, in ASCII so that the bytes do not depend on the locale."""
        self.print(json.dumps(value, indent=2))

    def say(self, words: str) -> None:
        """Write a message for people to stderr."""
        self.err.write(words + "\n")
        self.err.flush()


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table; `right` is for numbers, whose points stand under each other."""

    title: str
    right: bool = False


def render_table(columns: Sequence[Column], rows: Iterable[Sequence[str]]) -> str:
    """Render rows under their titles, aligned, without trailing spaces."""
    body = [[csv_text.printable(cell) for cell in row] for row in rows]
    for index, column in enumerate(columns):
        if column.right:
            for line, cell in zip(body, align_points([line[index] for line in body]), strict=True):
                line[index] = cell
    lines = [[column.title for column in columns], *body]
    widths = [max(len(line[index]) for line in lines) for index in range(len(columns))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if column.right else cell.ljust(width)
            for cell, width, column in zip(line, widths, columns, strict=True)
        ).rstrip()
        for line in lines
    )


def render_fields(fields: Sequence[tuple[str, str]]) -> str:
    """Render names and values, one pair per line."""
    width = max(len(name) for name, _ in fields)
    return "\n".join(
        f"{name:<{width}}  {csv_text.printable(value)}".rstrip() for name, value in fields
    )


def render(columns: Columns[Row], rows: Sequence[Row], currency: str) -> str:
    """Render rows as a table; amounts are aligned to the right."""
    return render_table(
        [Column(title.format(currency), right="{}" in title) for title, _ in columns],
        [[cell(row) for _, cell in columns] for row in rows],
    )
