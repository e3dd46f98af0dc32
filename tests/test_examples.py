"""Functions of plain values by example: files `examples.txt` have what they are given and return.

== gateway.money.parse_amount_nano
"0.10" = 100000000         the arguments and the result, as JSON
"1e3" ! is not an amount   words of the error
"""

from __future__ import annotations

import json
import re
from importlib import import_module
from inspect import signature
from itertools import zip_longest
from pathlib import Path
from typing import Final

import pytest

from tests.support.rows import told_together

SECTIONS: Final = dict(
    one.split("\n", 1)
    for path in sorted(Path(__file__).parent.rglob("examples.txt"))
    for one in path.read_text(encoding="utf-8").split("== ")[1:]
)
LINE: Final = re.compile(r"(.*) ([=!]) (.*)")


@pytest.mark.parametrize("name", SECTIONS)
def test_examples(name: str) -> None:
    module, _, function = name.rpartition(".")
    work = getattr(import_module(module), function)
    is_bytes = [one.annotation == "bytes" for one in signature(work).parameters.values()]
    with told_together() as row:
        for line in SECTIONS[name].split("\n"):
            if not line or line.startswith("# "):
                continue
            found = LINE.fullmatch(line)
            assert found is not None, line
            arguments, kind, expected = json.loads(f"[{found[1]}]"), found[2], found[3]
            arguments = [
                value.encode("latin-1") if encoded else value
                for value, encoded in zip_longest(arguments, is_bytes[: len(arguments)])
            ]
            with row(line):
                if kind == "=":
                    # As text, in which 1, 1.0 and true are not the same.
                    assert json.dumps(work(*arguments)) == json.dumps(json.loads(expected))
                else:
                    with pytest.raises(Exception, match=re.escape(expected)) as caught:
                        work(*arguments)
                    if isinstance(caught.value, ValueError):
                        assert "secret" not in str(caught.value)
                        assert caught.value.__suppress_context__ or not caught.value.__context__
