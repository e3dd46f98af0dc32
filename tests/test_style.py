"""How the code is written: what the type checker is told to overlook, and what limits say."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

import gateway
from tests.test_package import parse, walk

ROOT: Final = Path(gateway.__file__).parent
TESTS: Final = Path(__file__).parent
MODULES: Final = {
    path.relative_to(ROOT).with_suffix("").as_posix(): path for path in sorted(ROOT.rglob("*.py"))
}

MAX_IGNORES: Final = 5
IGNORE: Final = re.compile(r"#\s*type:\s*ignore(.*)")
REASONED: Final = re.compile(r"\[[a-z-]+\]  ?# \w+.*")

JSON_BORDERS: Final = """
    config/load config/models config/prices config/providers config/reader config/records
    dialects/chat/state dialects/messages/caller dialects/messages/history dialects/messages/stream
    dialects/translate/messages_over_chat_request
    dialects/wire/fields
    dialects/wire/jsonbytes dialects/wire/provider_bill dialects/wire/records dialects/wire/usage extras/advice/literals extras/advice/mistaken
    extras/advice/plausible extras/audio/transcripts extras/cards/stripe extras/cards/stripe_objects
    extras/console/routes extras/embeddings/demo extras/moves/sources extras/postgres/adapters
    extras/postgres/messages extras/postgres/session extras/price_lists/compare extras/rerank/dialect
    extras/responses/checks extras/responses/history extras/responses/over_chat_reply
    extras/responses/replay extras/tool_schemas/forms extras/tool_schemas/roots ledger/sql/database ledger/sql/rows ledger/sqlite/statements upstream/demo
"""
"""Modules where values of any type come in or go out: JSON, TOML, and rows as a driver gives them.
Elsewhere a value has a type of its own."""

UNITS: Final = {"MINUTE_MS", "HOUR_MS", "HOURS_PER_DAY", "SECONDS_PER_MINUTE", "DAY_MS"}
"""Conversions, which need no reason."""
GIVEN: Final = """
    CENTS COMPLETE_STATUS INIT OK OLDEST_SQLITE PRIMARY_CODE REFUSED SERVER_ERROR UNAUTHORIZED VERSION MAX_STATUS
    _CLIENT_ERROR _ENABLED _LEVELS _LIMITED _MARK_WORDS _MEGABYTE _NOTHING _OK _PCM _PLAIN_MEMBERS
    _SERVER_ERROR _TICKS_PER_UNIT _TOO_LARGE _UNITS _US_SECONDS
"""
"""Figures that are no limits and that nobody chose: units, statuses, versions and numbers of formats."""
MIN_WORDS: Final = 4
REASON: Final = re.compile(
    r"[:;] "  # what follows is the reason, or what is done beyond
    r"|\.\s+[A-Z]"  # and so is a second sentence
    r"|, (?:as|so|which)\b|\b(?:so that|because|otherwise|else|since|than|as (?:many|large|long))\b"
    r"|(?<![\w.])\d"  # a figure that it is compared with
    r"|\b(?:OpenAI|Anthropic|Linux|RFC|SQLite|Stripe|systemd|`[A-Z_]+`)"  # where it is from
)
"""The forms in which a docstring gives the reason of a limit."""


def test_the_type_checker_overlooks_little_and_is_told_why() -> None:
    lines = [
        (path.name, found[1])
        for root in (ROOT, TESTS)
        for path in sorted(root.rglob("*.py"))
        if path != Path(__file__)
        for found in IGNORE.finditer(path.read_text("utf-8"))
    ]
    assert [line for line in lines if not REASONED.fullmatch(line[1])] == []
    assert len(lines) <= MAX_IGNORES, lines


def test_any_is_used_at_json_borders_only() -> None:
    untyped = {
        name
        for name, path in MODULES.items()
        for node in walk(path)
        if isinstance(node, ast.Name) and node.id == "Any"
    }
    here = {one for one in JSON_BORDERS.split() if one in MODULES or not one.startswith("extras/")}
    assert untyped == here


def test_the_readme_of_the_tests_names_each_text() -> None:
    named = re.findall(r"`([\w*./]+)`", (TESTS / "README.md").read_text("utf-8"))
    files = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("*.*")]
    texts = [name for name in files if name.endswith((".json", ".toml", ".txt"))]
    assert [name for name in texts if not any(fnmatch(name, one) for one in named)] == []


def is_figure(node: ast.expr) -> bool:
    """Return whether an expression is a number, computed from one, or a table of them."""
    match node:
        case ast.Constant(value=value):
            return isinstance(value, int | float) and not isinstance(value, bool)
        case ast.BinOp(left=left, right=right):
            return is_figure(left) or is_figure(right)
        case ast.UnaryOp(operand=operand):
            return is_figure(operand)
        case ast.Dict(values=values) | ast.Tuple(elts=values):
            return bool(values) and all(is_figure(value) for value in values)
        case _:
            return False


def find_figures(tree: ast.Module) -> Iterator[tuple[str, int, str]]:
    """Give each constant that is a figure: its name, its line, and the string under it."""
    for node, after in zip(tree.body, [*tree.body[1:], None], strict=True):
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.Assign(targets=[ast.Name(id=name)], value=value)
            ) if re.fullmatch(r"_?[A-Z][A-Z0-9_]+", name) and is_figure(value):
                under = after.value if isinstance(after, ast.Expr) else None
                said = under.value if isinstance(under, ast.Constant) else ""
                yield name, node.lineno, str(said)
            case _:
                pass


def test_each_limit_says_its_unit_and_its_reason() -> None:
    silent, found = [], 0
    for module, path in MODULES.items():
        for name, line, said in find_figures(parse(path)):
            found += 1
            words = " ".join(said.split())
            if words.count(" ") < MIN_WORDS - 1 and name not in UNITS:
                silent.append(f"{module}:{line} {name}")
            elif not REASON.search(words) and name not in UNITS | {*GIVEN.split()}:
                silent.append(f"{module}:{line} {name} has no reason: {words}")
    assert silent == []
    assert found > len(MODULES) / 2, "the figures were not found"


def test_no_docstring_of_the_package_begins_with_a_riddle() -> None:
    """It begins with a verb or with what the thing is: "Of", "What" and "Who" leave the subject to the reader."""
    found = [
        f"{path.name}: {one}"
        for path in sorted(Path(gateway.__file__).parent.rglob("*.py"))
        for one in re.findall(
            r'^\s*"""((?:Of|What|Who)\b.*)', path.read_text("utf-8"), re.MULTILINE
        )
    ]
    assert found == []
