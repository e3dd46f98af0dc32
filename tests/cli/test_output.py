"""Data that commands write. `examples.txt` has the tables."""

from __future__ import annotations

import io
import json

from gateway.cli.output import Output


def test_json_is_the_same_bytes_in_every_locale() -> None:
    out = io.StringIO()
    Output(out, io.StringIO()).print_json({"name": "…é"})
    assert out.getvalue().isascii()
    assert json.loads(out.getvalue()) == {"name": "…é"}
