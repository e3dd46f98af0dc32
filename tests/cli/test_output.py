"""Tables, CSV and JSON: aligned for people, safe in terminals and spreadsheets, exact."""

from __future__ import annotations

import io
import json

from gateway.cli.arguments import Output, render_fields, render_table


def test_a_table_is_aligned_and_has_no_trailing_spaces() -> None:
    table = render_table(
        ("NAME", ">COST", "NOTE"),
        [("a", "1.00", "x"), ("longer", "12.50", "")],
    )
    assert table == (
        "NAME     COST  NOTE\n"
        "a        1.00  x\n"
        "longer  12.50"
    )  # fmt: skip


def test_the_points_of_amounts_stand_under_each_other() -> None:
    amounts = ("20.00", "0.0004", "-", "free", "-1234.000000001")
    table = render_table((">COST", "N"), [(one, "x") for one in amounts])
    assert table == (
        "           COST  N\n"
        "   20.00         x\n"
        "    0.0004       x\n"
        "              -  x\n"
        "           free  x\n"
        "-1234.000000001  x"
    )


def test_a_table_without_rows_is_its_heading() -> None:
    assert render_table(("A", "B"), []) == "A  B"


def test_nothing_in_a_cell_moves_the_cursor() -> None:
    shown = render_table(("A",), [("x\x1b[2J\r\n\u202ey",)])
    assert shown == "A\nx\ufffd[2J\ufffd\ufffd\ufffdy"
    assert "\x1b" not in render_fields([("name", "\x1b]0;title\x07")])


def test_json_is_the_same_bytes_in_every_locale() -> None:
    out = io.StringIO()
    Output(out, io.StringIO()).print_json({"name": "…é"})
    assert out.getvalue().isascii()
    assert json.loads(out.getvalue()) == {"name": "…é"}
