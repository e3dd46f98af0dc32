"""The output of commands: data on stdout, as text, tables or JSON; messages on stderr."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TextIO, TypeVar

from gateway.admin.fields import Columns, printable
from gateway.base.money import align_points

Json = dict[str, object] | list[dict[str, object]]
Row = TypeVar("Row")


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


def render_table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Render rows under their titles, aligned, without trailing spaces.

    A title that begins with `>` is that of numbers, whose points stand under each other.
    """
    body = [[printable(cell) for cell in row] for row in rows]
    is_number = [title.startswith(">") for title in titles]
    for index in (index for index, right in enumerate(is_number) if right):
        for line, cell in zip(body, align_points([line[index] for line in body]), strict=True):
            line[index] = cell
    lines = [[title.removeprefix(">") for title in titles], *body]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, is_number, strict=True)
        ).rstrip()
        for line in lines
    )


def render_fields(fields: Sequence[tuple[str, str]]) -> str:
    """Render names and values, one pair per line."""
    width = max(len(name) for name, _ in fields)
    return "\n".join(f"{name:<{width}}  {printable(value)}".rstrip() for name, value in fields)


def render(
    columns: Columns[Row], rows: Iterable[Row], currency: str = "", total: Sequence[str] = ()
) -> str:
    """Render records as a table, above the first cells of a total; `{}` in a title is the currency."""
    cells = [[cell(row) for _, cell in columns] for row in rows]
    if total:
        cells.append([*total, *[""] * (len(columns) - len(total))])
    return render_table([title.format(currency) for title, _ in columns], cells)
