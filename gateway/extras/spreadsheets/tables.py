"""Write rows as CSV in which no text is a formula, and lists of a command as JSON, a table or CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeVar

from gateway.admin.fields import Fields, printable
from gateway.base.times import unix_ms
from gateway.cli.command import Command
from gateway.cli.verbs import JSON, Argument, flag

Row = TypeVar("Row")


def make_formats(what: str = "write CSV to stdout") -> tuple[Argument, ...]:
    """Make `--json`, and `--csv` with this help, of which a verb has one; its function gets `csv`."""
    return (JSON, flag("--csv", what))


def show_rows(
    command: Command,
    rows: Sequence[Row],
    fields: Fields[Row],
    total: Sequence[str] = (),
    *,
    as_csv: bool,
) -> None:
    """Write rows to stdout: as CSV, as JSON if it was asked for, else as a table with a total."""
    if as_csv:
        now_ms = unix_ms()
        described = (fields.describe(row, now_ms) for row in rows)
        command.output.print(write_csv(described, fields.names))
    else:
        command.show_list(rows, fields, total)


_SIGNS: Final = "=+\\-@"
_WIDE: Final = "\uff1d\uff0b\uff0d\uff20\ufe66\ufe62\ufe63\ufe6b\u207c\u207a\u207b\u208c\u208a\u208b\ufb29\u2212"
"""The same signs in other widths and heights: East Asian editions read some as the plain ones."""
_FORMULA: Final = re.compile(rf"[\t\r\n]|\s*[{_SIGNS}{_WIDE}]")
"""The beginning of a cell that a spreadsheet runs."""
_BEHIND: Final = re.compile(rf"[;|][\s\"]*(?=[{_SIGNS}{_WIDE}])")
"""The end of a cell before a formula in other places: where the decimal sign is a comma, cells end at
a semicolon, and quotes do not keep a text together."""


def write_csv(
    rows: Iterable[Mapping[str, object]], names: Sequence[str], *, header: bool = True
) -> str:
    """Return these members of objects for JSON as lines of CSV, in which no text cell is a formula."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    if header:
        writer.writerow(names)
    writer.writerows([_write_csv_cell(row, name) for name in names] for row in rows)
    return buffer.getvalue()


def _write_csv_cell(described: Mapping[str, object], name: str) -> str | int | None:
    """Write a cell; None is an empty one, and an amount, such as `-0.25`, is left as it is."""
    value = described[name]
    if isinstance(value, bool):
        return "true" if value else "false"
    assert value is None or isinstance(value, str | int)
    is_text = isinstance(value, str) and f"{name}_nano" not in described
    return _guard(str(value)) if is_text else value


def _guard(cell: str) -> str:
    mark = "'" if _FORMULA.match(cell) else ""
    return printable(mark + _BEHIND.sub(r"\g<0>'", cell))
