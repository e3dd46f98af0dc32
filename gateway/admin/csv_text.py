"""CSV that is safe to open in a spreadsheet: no cell is run as a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from typing import Final

_FORMULA_STARTS: Final = ("=", "+", "-", "@", "\t", "\r")
"""A spreadsheet runs a cell that begins with one of these."""


class Figure(str):
    """A number as text that is left as it is in CSV, such as `-0.25`."""

    __slots__ = ()


def render_csv(header: Sequence[str], rows: Iterable[Sequence[str | int | None]]) -> str:
    """Return a whole CSV file."""
    return csv_lines((header, *rows))


def csv_lines(rows: Iterable[Sequence[str | int | None]]) -> str:
    """Return lines of CSV in which no text cell is a formula; None is an empty cell."""
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
    """Replace characters that are not printable, such as those that move a terminal's cursor."""
    if cell.isprintable():
        return cell
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cell)
