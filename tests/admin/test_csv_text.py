"""CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re

from gateway.admin.fields import Figure, csv_lines
from tests.support.rows import each_row

STARTS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", " =1", "\u3000=1"]
WIDE = ["\uff1d1", "\uff0b1", "\uff0d1", "\uff20A", "\ufe661", "\u207a1", "\u22121"]


@each_row("cell", [*STARTS, *WIDE])
def test_no_text_cell_of_a_csv_is_a_formula(cell: str) -> None:
    rendered = csv_lines([("name", "cost"), (cell, -5)])
    assert list(csv.reader(io.StringIO(rendered, newline=""))) == [
        ["name", "cost"],
        ["'" + re.sub(r"[\t\r\n\u3000]", "\ufffd", cell), "-5"],
    ]


def test_a_csv_keeps_commas_and_quotes() -> None:
    rendered = csv_lines([("name",), ('a "b", c',)])
    assert list(csv.reader(io.StringIO(rendered))) == [["name"], ['a "b", c']]


@each_row("cell", ["a;=1+1", 'a;"=1', 'a";"=1', "a; @A", "a|-1", ";=1", "a;b;\uff1d1"])
@each_row("delimiter", [",", ";", "|"])
def test_no_cell_is_a_formula_where_others_separate(cell: str, delimiter: str) -> None:
    """Spreadsheets of many countries split the lines at semicolons."""
    rendered = csv_lines([("name", "cost"), ("x", cell), (cell, "x")])
    for row in csv.reader(io.StringIO(rendered), delimiter=delimiter):
        assert not [one for one in row if one.strip(' "')[:1] in {"=", "@", "-", "\uff1d"}]


@each_row("cell", [Figure("-0.25"), "2026-11-23", "12:30", "a-b", "a; b=1", 7, -5])
def test_figures_dates_and_plain_texts_stay(cell: str | int) -> None:
    assert csv_lines([(cell,)]) == f"{cell}\n"
