"""CSV that is safe to open in a spreadsheet: no cell is run as a formula."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Final

_SIGNS: Final = "=+\\-@"
_WIDE: Final = "\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207c\u207a\u207b\u208c\u208a\u208b\ufb29\u2212"
"""The same signs in other widths and heights: East Asian editions read some as the plain ones."""
_FORMULA: Final = re.compile(rf"[\t\r\n]|\s*[{_SIGNS}{_WIDE}]")
"""The beginning of a cell that a spreadsheet runs."""
_BEHIND: Final = re.compile(rf"[;|][\s\"]*(?=[{_SIGNS}{_WIDE}])")
"""What ends a cell elsewhere, before a formula: where the decimal sign is a comma, cells end at a
semicolon, and quotes do not keep a text together."""


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
    if isinstance(cell, Figure):
        return cell
    mark = "'" if _FORMULA.match(cell) else ""
    return printable(mark + _BEHIND.sub(r"\g<0>'", cell))


def printable(cell: str) -> str:
    """Replace characters that are not printable, such as those that move a terminal's cursor."""
    if cell.isprintable():
        return cell
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in cell)
