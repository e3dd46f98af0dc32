"""CSV that is safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
import re

import pytest

from gateway.admin.csv_text import render_csv


@pytest.mark.parametrize("cell", ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1"])
def test_no_text_cell_of_a_csv_is_a_formula(cell: str) -> None:
    rendered = render_csv(("name", "cost"), [(cell, -5)])
    assert list(csv.reader(io.StringIO(rendered, newline=""))) == [
        ["name", "cost"],
        ["'" + re.sub(r"[\t\r]", "\ufffd", cell), "-5"],
    ]


def test_a_csv_keeps_commas_and_quotes() -> None:
    rendered = render_csv(("name",), [('a "b", c',)])
    assert list(csv.reader(io.StringIO(rendered))) == [["name"], ['a "b", c']]
