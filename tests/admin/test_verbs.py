"""Verbs with arguments that they refuse, or just take: `verbs.txt` has the calls, and what is said.

    entries.credit "alice", 0 ! amount: must be above 0      the field that is wrong, and the words
    keys.add_key "alice" = done

`{"KeyTerms": {…}}` stands for a record, `{"repeat": ["n", 101]}` for a long text, `{"number": 3}` for so
many names; `{"with": {…}}` has arguments by name. `keys.` are functions that get the books first. To
write what is said anew: `WRITE_SESSION=1 python -m pytest tests/admin/test_verbs.py && git diff`.
"""

from __future__ import annotations

import json
import os
import re
from operator import attrgetter
from pathlib import Path
from typing import Any, Final

from gateway.admin import keys
from gateway.ledger.budget_records import Allowance
from gateway.ledger.key_records import KeyTerms, Terms
from gateway.ledger.records import NotFound, Refused
from gateway.ledger.sql.books import Books
from tests.support.books import read_events
from tests.support.rows import told_together

VERBS: Final = Path(__file__).with_name("verbs.txt")
LINE: Final = re.compile(r"([\w.]+) (.*) (?:!.*|= done)")
RECORDS: Final = {one.__name__: one for one in (Allowance, KeyTerms, Terms)}


def build(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(build(one) for one in value)
    if not isinstance(value, dict):
        return value
    match next(iter(value), None):
        case "repeat":
            text, times = value["repeat"]
            return text * times
        case "number":
            pad, width = value.get("fill", "0"), value.get("width", 3)
            return tuple(f"{n:{pad}>{width}}" for n in range(value["number"]))
        case str(name) if name in RECORDS:
            given = build(value[name])
            return RECORDS[name](**given) if isinstance(given, dict) else RECORDS[name](*given)
        case _:
            return {name: build(one) for name, one in value.items()}


def call(books: Books, verb: str, arguments: str) -> str:
    """Return what becomes of a call; what is refused leaves no event."""
    given = [build(one) for one in json.loads(f"[{arguments}]")]
    named = given.pop()["with"] if isinstance(given[-1], dict) and "with" in given[-1] else {}
    if verb.startswith("keys."):
        work, given = getattr(keys, verb.removeprefix("keys.")), [books, *given]
    else:
        work = attrgetter(verb.replace("key.", "keys."))(books)
    before = read_events(books, 1)
    try:
        work(*given, **named)
    except (Refused, NotFound) as error:
        assert read_events(books, 1) == before
        return f"! {error.field or 'none'}: {error}"
    return "= done"


def test_each_verb_takes_and_refuses_what_is_written(books: Books) -> None:
    text = VERBS.read_text(encoding="utf-8")
    found: list[str] = []
    for line in text.splitlines():
        parts = LINE.fullmatch(line)
        told = parts and f"{parts[1]} {parts[2]} {call(books, parts[1], parts[2])}"
        found.append(told or line)
    if "WRITE_SESSION" in os.environ:
        VERBS.write_text("\n".join(found) + "\n", encoding="utf-8")
    with told_together() as row:
        for got, line in zip(found, text.splitlines(), strict=True):
            with row(line):
                assert got == line
