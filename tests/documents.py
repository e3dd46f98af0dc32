"""The parts of README and gateway/docs that the code determines.

`python -m tests.documents` writes them anew.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import re
import textwrap
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from functools import partial
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Final

from gateway.api.lifecycle import ENDINGS, UNCOMMITTED, Ending, Phase
from gateway.base.process import ExitCode
from gateway.config.reader import REQUIRED, Setting
from gateway.config.records import find_settings
from gateway.config.settings import SETTINGS
from gateway.dialects.exchanges import Exchange
from gateway.dialects.formats import FORMATS, PIVOT
from gateway.dialects.wire.billed import BILLED
from gateway.extension import find_extras
from tests import ROOT
from tests.support.formats import CALLERS, TRANSLATIONS

README: Final = ROOT / "README.md"
FOLDER: Final = ROOT / "gateway/docs"
LINE_CHARS: Final = 104
EXTRAS: Final = ROOT / "gateway/extras"
DOCUMENTS: Final = (README, *sorted(FOLDER.glob("*.md")), *sorted(EXTRAS.glob("*/*.md")))


def find_part(mark: str) -> tuple[Path, str]:
    """Return the one document that has the part between these marks, and the part."""
    found = [
        (path, match[1])
        for path in DOCUMENTS
        for match in _match(mark).finditer(path.read_text(encoding="utf-8"))
    ]
    assert len(found) == 1, f"{len(found)} documents have a part {mark}"
    return found[0]


def write_parts() -> None:
    """Replace each part by what the code says."""
    for mark, describe in {**PARTS, "sizes": describe_sizes}.items():
        path, _ = find_part(mark)
        text = path.read_text(encoding="utf-8")
        begin, end = next(_match(mark).finditer(text)).span(1)
        after = text[end:] if text[begin:end] else f"\n{text[end:]}"
        path.write_text(f"{text[:begin]}{describe()}{after}", encoding="utf-8")


def _match(mark: str) -> re.Pattern[str]:
    return re.compile(rf"<!-- {mark} -->\n(.*?)\n?<!-- /{mark} -->", re.DOTALL)


UNWRITTEN: Final = "its meaning is to be written here"
_SETTING: Final = re.compile(
    r"\| `(?P<table>[^`]+)` \| `(?P<key>[^`]+)` \| [^|]+ \| (?P<meaning>.+) \|"
)


def read_meanings(mark: str) -> dict[tuple[str, str], str]:
    """Return the meanings in a reference of settings, which are written there alone."""
    _, part = find_part(mark)
    return {(one["table"], one["key"]): one["meaning"] for one in _SETTING.finditer(part)}


def describe_settings(mark: str, tables: Mapping[str, Mapping[str, Setting]]) -> str:
    """A reference of settings: keys and defaults by the code, with the meanings that it has."""
    meanings = read_meanings(mark)
    lines = ["| table | key | default | meaning |", "|---|---|---|---|"]
    for table, settings in tables.items():
        for key, setting in settings.items():
            default = "required" if setting.default is REQUIRED else _show(setting.default)
            meaning = meanings.get((table, key), UNWRITTEN)
            lines.append(f"| `{table}` | `{key}` | {default} | {meaning} |")
    return "\n".join(lines)


def _show(default: object) -> str:
    if default is None:
        return "none"
    text = str(default).lower() if isinstance(default, bool) else str(default)
    return f"`{text}`"


_ENDING_NAMES: Final = {
    frozenset({Ending.COMPLETE}): Ending.COMPLETE.value,
    frozenset({Ending.ABANDONED}): Ending.ABANDONED.value,
    frozenset({Ending.UNDELIVERABLE}): Ending.UNDELIVERABLE.value,
    frozenset(Ending) - {Ending.COMPLETE, Ending.ABANDONED, Ending.UNDELIVERABLE}: "a failure",
}
_PHASE_NAMES: Final = {
    frozenset({Phase.ADMITTED}): "before a provider has the request",
    frozenset({Phase.ADMITTED, Phase.SENT, Phase.ANSWERED}): "before the caller's first event",
    frozenset({Phase.SENT, Phase.ANSWERED, Phase.STREAMING}): "once a provider has it",
    frozenset({Phase.STREAMING}): "after the caller's first event",
    frozenset(Phase) - {Phase.ENDED}: "at any time",
}
_ANSWERS: Final = {frozenset({True}): "yes", frozenset({False}): "no"}
_CALLERS: Final = {frozenset({True}): "is gone", frozenset({False}): "is there"}


def describe_endings() -> str:
    """The table of endings."""
    lines = [
        "| ending | the caller | when | delivered | charged | the caller gets |",
        "|---|---|---|---|---|---|",
    ]
    for endings, gone, phases, delivered, charge, last in ENDINGS:
        cells = (_ENDING_NAMES[endings], _CALLERS[gone], _PHASE_NAMES[phases])
        told = (_ANSWERS.get(delivered, "either"), charge.value, last.value)
        lines.append(f"| {' | '.join((*cells, *told))} |")
    for stream, (charge, last) in UNCOMMITTED.items():
        kind = "a stream" if stream else "a JSON reply"
        cells = (f"the charge of {kind} cannot be committed", "is there", "at any time")
        lines.append(f"| {' | '.join((*cells, 'either', charge.value, last.value))} |")
    return "\n".join(lines)


def describe_billed() -> str:
    """The list of the fields that change a provider's bill."""
    return textwrap.fill(f"{_list(BILLED)}.", LINE_CHARS)


def describe_multiplied(services: Iterable[Exchange]) -> str:
    """The list of the fields that make more of services."""
    return "\n".join(
        textwrap.fill(
            f"- {one.upstream.name}: {_list(one.upstream.multiplied)}",
            LINE_CHARS,
            subsequent_indent="  ",
        )
        for one in services
    )


def _list(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def describe_exit_codes() -> str:
    """The table of exit codes: the comments of the enum's members."""
    lines = ["| exit code | name | meaning |", "|---|---|---|"]
    (body,) = ast.parse(inspect.getsource(ExitCode)).body
    assert isinstance(body, ast.ClassDef)
    meanings = {}
    for node, after in itertools.pairwise(body.body):
        match node, after:
            case ast.Assign(targets=[ast.Name(id=name)]), ast.Expr(
                value=ast.Constant(value=str(text))
            ):
                meanings[name] = text
            case _:
                pass
    lines += [f"| {code.value} | {code.name} | {meanings[code.name]} |" for code in ExitCode]
    return "\n".join(lines)


def describe_fields(dialects: Collection[str], among: AbstractSet[str]) -> str:
    """The table of top-level fields of pairs of some dialects, of which one is among others."""
    lines = [
        "| fields | carried over | accepted and left out | refused unless at their default |",
        "|---|---|---|---|",
    ]
    for (caller, upstream), columns in FIELDS.items():
        if not {caller, upstream} <= {*dialects} or among.isdisjoint((caller, upstream)):
            continue
        cells = (", ".join(f"`{name}`" for name in sorted(column)) for column in columns)
        lines.append(f"| {caller} → {upstream} | {' | '.join(cells)} |")
    return "\n".join(lines)


Columns = tuple[frozenset[str], ...]
"""Fields that are carried over, that are left out, and that are refused."""


def _read_columns(module: ModuleType) -> Columns:
    return module.CARRIED | module.PASSED, module.DROPPED, frozenset(module.REFUSED)


def _join_columns(outer: ModuleType, inner: Columns) -> Columns:
    """Join the columns of a translation to chat with those of one from chat, which may end a way."""
    carried, *ends = _read_columns(outer)
    for at, column in enumerate(inner[1:]):
        ended = {name for name in carried if _name_in_chat(outer, name) <= column}
        carried, ends[at] = carried - ended, ends[at] | ended
    return carried, *ends


def _name_in_chat(module: ModuleType, field: str) -> set[str]:
    """Return the fields of chat that a caller's field becomes."""
    made = {
        name
        for name, theirs in module.NAMES.items()
        if field in {one.partition(".")[0] for one in theirs}
    }
    return made or {field}


_MODULES: Final = {
    pair: import_module(one.translate_request.__module__) for pair, one in TRANSLATIONS.items()
}
_DIRECT: Final = {pair: _read_columns(module) for pair, module in _MODULES.items()}
FIELDS: Final[Mapping[tuple[str, str], Columns]] = {
    **_DIRECT,
    **{
        (caller, upstream): _join_columns(_MODULES[caller, PIVOT], _DIRECT[PIVOT, upstream])
        for caller, _ in _MODULES
        for _, upstream in _MODULES
        if PIVOT not in (caller, upstream) and caller != upstream
    },
}
"""Keys are the caller's dialect and the provider's."""
PARTS: Final[Mapping[str, Callable[[], str]]] = {
    "configuration": partial(describe_settings, "configuration", SETTINGS),
    **{
        f"settings-{name}": partial(
            describe_settings,
            f"settings-{name}",
            {
                (one.in_table or name): find_settings(one.find_record())
                for name, one in extra.tables.items()
            },
        )
        for name, extra in find_extras().items()
        if extra.tables
    },
    "endings": describe_endings,
    "billed": describe_billed,
    **{
        f"multiplied-{name}": partial(describe_multiplied, services)
        for name, extra in find_extras().items()
        if extra.find_formats is not None and (services := extra.find_formats().services)
    },
    "exit-codes": describe_exit_codes,
    "fields": partial(describe_fields, FORMATS.callers, FORMATS.callers.keys()),
    **{
        f"fields-{name}": partial(describe_fields, CALLERS, callers)
        for name, extra in find_extras().items()
        if extra.find_formats is not None
        and (callers := extra.find_formats().callers.keys() - FORMATS.callers.keys())
    },
}

SIZE_COLUMNS: Final = 9


def describe_sizes() -> str:
    """The table of core and extras: a link to the document of each, and its lines of code to the ten."""
    extras = sorted(path.parent for path in EXTRAS.glob("*/__init__.py"))
    cells = [f"core {count_code(ROOT / 'gateway', but=EXTRAS):,}"]
    for folder in extras:
        first = folder / f"{folder.name}.md"
        others = sorted({*folder.glob("*.md")} - {first})
        link = _link(first if first.exists() else folder / "__init__.py", folder.name)
        more = f" ({', '.join(_link(one, one.stem) for one in others)})" if others else ""
        cells.append(f"{link}{more} {count_code(folder):,}")
    cells += [""] * (-len(cells) % SIZE_COLUMNS)
    rows = [cells[at : at + SIZE_COLUMNS] for at in range(0, len(cells), SIZE_COLUMNS)]
    head, *rest = (f"| {' | '.join(row)} |" for row in rows)
    return "\n".join([head, "|---" * SIZE_COLUMNS + "|", *rest])


def _link(path: Path, name: str) -> str:
    return f"[{name}]({path.relative_to(ROOT)})"


def count_code(folder: Path, but: Path | None = None) -> int:
    """Count lines of Python without blanks, comments and docstrings, rounded to ten."""
    paths = (path for path in folder.rglob("*.py") if but not in path.parents)
    return round(sum(map(_count_lines, paths)), -1)


def _count_lines(path: Path) -> int:
    text = _PROSE.sub("", path.read_text(encoding="utf-8"))
    return sum(bool(line.strip()) for line in text.split("\n"))


_PROSE: Final = re.compile(
    r'(?ms)^ *"""(?=[^\s)",])(?:[^"\\]|\\.|"(?!""))*"""$'  # a docstring has words behind its quotes
    r"|^ *#.*?$"
)


if __name__ == "__main__":
    write_parts()
