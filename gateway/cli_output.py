"""What a command says: data on stdout, words on stderr; tables for people, JSON and CSV for tools."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TextIO

Json = dict[str, object] | list[dict[str, object]]

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that begins so."""


class Figure(str):
    """A number as text, which in CSV is to stay one: `-0.25` is no formula."""

    __slots__ = ()


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


def render_csv(header: Sequence[str], rows: Iterable[Sequence[str | int | None]]) -> str:
    """A whole CSV file."""
    return csv_lines((header, *rows))


def csv_lines(rows: Iterable[Sequence[str | int | None]]) -> str:
    """Lines of CSV in which no text cell is a formula; None is an empty cell."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    for row in rows:
        writer.writerow([_guard(cell) if isinstance(cell, str) else cell for cell in row])
    return buffer.getvalue()


def _guard(cell: str) -> str:
    if cell.startswith(_FORMULA_STARTS) and not isinstance(cell, Figure):
        return printable(f"'{cell}")
    return printable(cell)


def printable(cell: str) -> str:
    """The cell without anything that could move a terminal's cursor."""
    if cell.isprintable():
        return cell
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cell)


def format_moment(ms: int) -> str:
    """Unix milliseconds for people."""
    return f"{_to_datetime(ms):%Y-%m-%d %H:%M}"


def format_iso(ms: int | None) -> str | None:
    """Unix milliseconds for tools."""
    if ms is None:
        return None
    return _to_datetime(ms).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _to_datetime(ms: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
