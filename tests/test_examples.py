"""Functions of plain values by example: files `examples.txt` have what they are given and return.

== gateway.money.parse_amount_nano
"0.10" = 100000000               the arguments and the result, as JSON
"1e3" | "x" ! is not an amount   words of the error, for each of the arguments

Records are lists of their fields, or objects; moments may be dates; a method's object comes first, and
parameters that have to be named come last. `$name := ...` gives a name to what follows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Final

import pytest

from gateway.base.times import to_unix_ms
from tests.support.rows import told_together

NAME: Final = re.compile(r"(\$[a-z_]+)")
LINE: Final = re.compile(r"(.*) (:=|=|!) (.*)")


def read_sections() -> dict[str, list[tuple[str, str, str]]]:
    """Read the lines by the function that they are about: arguments, sign and result."""
    found: dict[str, list[tuple[str, str, str]]] = {}
    for path in sorted(Path(__file__).parent.rglob("examples.txt")):
        known: dict[str, str] = {}
        rows: list[tuple[str, str, str]] = []
        for raw in path.read_text(encoding="utf-8").split("\n"):
            line = "".join(known.get(part, part) for part in NAME.split(raw))
            if line.startswith("== "):
                rows = found.setdefault(line[3:], [])
            elif line and not line.startswith("# "):
                parts = LINE.fullmatch(line)
                assert parts is not None, line
                if parts[2] == ":=":
                    known[parts[1]] = parts[3]
                else:
                    rows += [(one, parts[2], parts[3]) for one in parts[1].split(" | ")]
    return found


SECTIONS: Final = read_sections()


def build(kind: str, value: Any, module: str) -> Any:
    """Make a value of what an annotation in a module names."""
    kind = kind.removesuffix(" | None")
    if kind == "bytes":
        return None if value is None else value.encode("latin-1")
    if kind == "int" and isinstance(value, str):
        found = datetime.fromisoformat(value)
        return to_unix_ms(found if found.tzinfo else found.replace(tzinfo=UTC))
    if kind.startswith("tuple[") and isinstance(value, list):
        inner = kind.removeprefix("tuple[").removesuffix(", ...]")
        return tuple(build(inner, one, module) for one in value)
    record = getattr(import_module(module), kind, None)
    if value is None or not is_dataclass(record) or not isinstance(record, type):
        return value
    kinds = {one.name: str(one.type) for one in fields(record) if one.init}
    given = value if isinstance(value, dict) else dict(zip(kinds, value, strict=False))
    made = {name: build(kinds[name], one, record.__module__) for name, one in given.items()}
    return record(**made)


def call(work: Callable[..., Any], values: list[Any]) -> Any:
    parameters = list(signature(work).parameters.values())
    own = dict.fromkeys((Parameter.empty, "Self"), work.__qualname__.partition(".")[0])
    given, named = [], {}
    for at, value in enumerate(values):
        one = parameters[min(at, len(parameters) - 1)]
        made = build(own.get(one.annotation, one.annotation), value, work.__module__)
        if one.kind is Parameter.KEYWORD_ONLY:
            named[one.name] = made
        else:
            given.append(made)
    return work(*given, **named)


@pytest.mark.parametrize("name", SECTIONS)
def test_examples(name: str) -> None:
    work = resolve_name(name)
    returned = str(signature(work).return_annotation)
    with told_together() as row:
        for told, sign, expected in SECTIONS[name]:
            values = json.loads(f"[{told}]")
            with row(f"{told} {sign} {expected}"):
                if sign == "=":
                    wanted = build(returned, json.loads(expected), work.__module__)
                    got = call(work, values)
                    # As text, in which 1, 1.0 and true are not the same.
                    assert (
                        got == wanted
                        if is_dataclass(wanted)
                        else json.dumps(got) == json.dumps(wanted)
                    )
                else:
                    with pytest.raises(Exception, match=re.escape(expected)) as caught:
                        call(work, values)
                    if isinstance(caught.value, ValueError):
                        assert "secret" not in str(caught.value)
                        assert caught.value.__suppress_context__ or not caught.value.__context__
