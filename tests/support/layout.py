"""How JSON stands in transcripts."""

from __future__ import annotations

import json
from typing import Any, Final

WIDTH: Final = 160
"""Characters of a line that is filled."""


def lay_out(value: Any, at: int = 0, indent: str = " ") -> str:
    """Write JSON on one line if it fits from column `at` on, else as many members on each line as fit."""
    text = json.dumps(value, ensure_ascii=False)
    if at + len(text) <= WIDTH or not value or not isinstance(value, dict | list):
        return text
    out, last = "{}" if isinstance(value, dict) else "[]"
    members = value.items() if isinstance(value, dict) else enumerate(value)
    whole = ""
    for key, one in members:
        name = f"{json.dumps(key)}: " if isinstance(value, dict) else ""
        column = at + len(out) if "\n" not in out else len(out) - out.rindex("\n") - 1
        short = name + json.dumps(one, ensure_ascii=False)
        if whole and ("\n" in whole or column + len(short) + 2 > WIDTH):
            out, column = f"{out},\n{indent}", len(indent)
        elif whole:
            out, column = f"{out}, ", column + 2
        whole = name + lay_out(one, column + len(name) + 1, f"{indent} ")
        out += whole
    return out + last


def fill_json(text: str) -> str:
    """Fill the lines of JSON that has a line for each member, as the command line prints it."""
    try:
        value = json.loads(text)
    except json.JSONDecodeError:
        return text
    plain = json.dumps(value, ensure_ascii=False, indent=2)
    return lay_out(value) if text == f"{plain}\n" else text
