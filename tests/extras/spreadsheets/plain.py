"""CSV as a function of plain values, for `examples.txt`."""

from __future__ import annotations

from gateway.extras.spreadsheets import tables


def write_csv(rows: list[dict[str, object]]) -> list[str]:
    """Return the lines below the header."""
    return tables.write_csv(rows, list(rows[0]), header=False).splitlines()
