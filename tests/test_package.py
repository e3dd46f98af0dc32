"""The package keeps its own rules: the map, who imports whom, the I/O-free core, small pieces."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

import gateway
from gateway.extension import find_extras
from tests.support.rows import each_row

ROOT = Path(gateway.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MODULES = {path.relative_to(ROOT).with_suffix("").as_posix(): path for path in FILES}
NAMES = {name.removesuffix("/__init__") for name in MODULES} - {"__init__"}
EXTRAS = sorted(path.parent.name for path in ROOT.glob("extras/*/__init__.py"))
PLACES = sorted({name.split("/")[0] for name in NAMES} | {"extras"})
FOLDERS = [place for place in PLACES if (ROOT / place).is_dir() and place != "extras"]

MAX_MAP_LINES: Final = 47
MAX_FILE_LINES: Final = 400
TINY_LINES: Final = 60
MAX_TINY_PERCENT: Final = 10
MAX_FUNCTION_LINES: Final = 40

MAY_IMPORT: Final = {
    "base": set[str](),
    "extension": {"api", "config", "dialects", "ledger"},  # but for `dialects`, types alone
    "config": {"base", "dialects", "extension", "ledger"},
    "dialects": {"base"},
    "ledger": {"base", "extension"},
    "upstream": {"base", "config", "dialects", "extension"},
    "api": {"base", "config", "dialects", "extension", "ledger", "upstream"},
    "admin": {"base", "config", "extension", "ledger"},
    "server": {"base", "admin", "api", "config", "extension", "ledger"},
    "cli": {"base", "admin", "config", "extension", "ledger", "server", "__init__"},
    "__main__": {"base", "cli", "ledger"},
    "extras": {
        *("base", "admin", "api", "cli", "config", "dialects", "extension", "ledger", "server"),
        "upstream",
    },
}
"""The import table: what each place at the top level may use. At run time it has no cycle: `extension` names
types of the others, and imports `dialects` alone."""
BASE: Final = {"deadlines": {"errors", "turns"}}
"""The modules of `base` that others of it may use, beside `money`, `prices` and `times`."""

LAYERS: Final = {
    "dialects": ("wire", "chat messages", "translate", "exchanges", "formats"),
    "ledger": (
        *("budget_records", "key_records", "call_records", "records base", "checks"),
        *("versions serving", "sql", "sqlite", "opening"),
    ),
}
"""The layers of folders that have folders: each layer may use those before it. Of two in a layer none uses the
other."""

PURE_BASE: Final = {"addresses", "errors", "ids", "money", "prices", "process", "times", "usage"}
CORE: Final = {
    *(f"base/{name}" for name in PURE_BASE), "api/lifecycle", "api/limits", "upstream/keys",
    "upstream/http1",
}  # fmt: skip
"""Besides all of `dialects/`: bytes and values in, bytes and values out."""
DO_IO: Final = {
    "extras/audio/uploads": "writes what arrives of a form into a file",
    "extras/renewal/__init__": "starts the task that renews the keys",
    "extras/renewal/keys": "reads keys from files and runs the commands that make them",
}
"""Modules of extras with formats that are no part of a format, and what each does instead."""
SPEAK: Final = {
    *("base/money", "base/usage", "extras/moves/known", "extras/services/multiplied"),
    *("extras/reference/document", "extras/reference/pages"),  # OpenAPI has a field `responses`
}
"""Besides `dialects/` and extras with formats: modules with words of wire formats."""
WORLD: Final = {
    "asyncio", "aiohttp", "aiosqlite", "psycopg", "sqlite3", "socket", "ssl", "selectors",
}  # fmt: skip


@cache
def parse(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def walk(path: Path) -> tuple[ast.AST, ...]:
    """Return all nodes of a module: many tests look at all modules, and to walk them takes a second."""
    return tuple(ast.walk(parse(path)))


def find_imports(nodes: Iterable[ast.AST]) -> set[str]:
    """Find our modules that statements name, as paths below the package."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module or ""]
            found |= {name.removeprefix("gateway.").replace(".", "/") for name in names}
            if node.module == "gateway":
                found |= {"__init__" for alias in node.names if alias.name not in NAMES}
        elif isinstance(node, ast.Import):
            found |= {alias.name.removeprefix("gateway.").replace(".", "/") for alias in node.names}
    return found & (NAMES | {"__init__"})


def test_the_map_names_every_place_once() -> None:
    assert gateway.__doc__ is not None
    assert gateway.__doc__.count("\n") < MAX_MAP_LINES
    first = gateway.__doc__.split("\n\n")[1]
    entries = [line.split("   ")[0] for line in first.replace("    ", "", 1).split("\n    ")]
    named = [word.strip("/") for entry in entries for word in entry.split()]
    assert sorted(named) == PLACES


def test_the_way_of_a_completion_names_what_exists() -> None:
    steps = re.findall(r"\b((?:[a-z_]+\.)+)([A-Za-z_]+)\b", gateway.__doc__ or "")
    steps = [(place[:-1].replace(".", "/"), name) for place, name in steps if place != "gateway."]
    assert len(steps) > 10
    for module, name in steps:
        defined = {getattr(node, "name", None) for node in parse(MODULES[module]).body}
        assert name in defined | set(find_constants(MODULES[module])), (module, name)


@pytest.mark.no_cover
def test_members_that_prose_names_exist() -> None:
    """Each `Class.member` that a docstring or a comment names exists: a renamed one would be a riddle."""
    members: dict[str, set[str]] = {}
    bases: dict[str, set[str]] = {}
    for path in FILES:
        for node in walk(path):
            if isinstance(node, ast.ClassDef):
                members.setdefault(node.name, set()).update(find_members(node))
                bases.setdefault(node.name, set()).update(map(ast.unparse, node.bases))
    for path in FILES:
        for name, member in re.findall(r"`([A-Z]\w+)\.(\w+)`", path.read_text("utf-8")):
            line = [name]
            for one in line:  # which grows meanwhile
                line.extend(bases.get(one, ()))
            has = set().union(*(members.get(one, set()) for one in line))
            assert member in has, f"{path.name}: {name}.{member}"


def find_members(node: ast.ClassDef) -> Iterator[str]:
    """Find what a class defines or assigns: methods, fields, attributes of `self`."""
    for one in ast.walk(node):
        match one:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name
            case _:
                pass


def find_constants(path: Path) -> Iterator[str]:
    for node in parse(path).body:
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            yield node.target.id


@each_row("folder", [*FOLDERS, *(f"extras/{name}" for name in EXTRAS)])
def test_a_folder_says_what_is_in_it(folder: str) -> None:
    """Each module of a folder stands in its docstring, so a reader need not open all of them."""
    said = ast.get_docstring(parse(ROOT / folder / "__init__.py")) or ""
    words = set(re.findall(r"[a-z_0-9]+", said))
    inside = {
        name.removeprefix(f"{folder}/").split("/")[0]
        for name in NAMES
        if name.startswith(f"{folder}/")
    }
    assert inside - words == set()


@each_row("folder", FOLDERS)
def test_a_folder_says_what_it_may_import(folder: str) -> None:
    doc = ast.get_docstring(parse(ROOT / folder / "__init__.py")) or ""
    said = re.search(r"May import: ([^.;]*)[.;]", doc)
    assert said is not None
    named = set(re.findall(r"`(\w+)`", re.sub(r"\([^)]*\)", "", said[1])))
    assert named == MAY_IMPORT[folder] - {"__init__"}


def test_imports_follow_the_table() -> None:
    assert sorted(MAY_IMPORT) == PLACES
    for name, path in MODULES.items():
        place = name.split("/")[0]
        used = {one.split("/")[0] for one in find_imports(walk(path))} - {place}
        assert used <= MAY_IMPORT.get(place, set()), name


def test_the_base_uses_little_of_itself() -> None:
    for name, path in MODULES.items():
        folder, _, own = name.partition("/")
        used = {one.removeprefix("base/") for one in find_imports(walk(path))}
        if folder == "base":
            assert used - {"base"} <= {"money", "prices", "times", *BASE.get(own, ())}, name


@each_row("folder", LAYERS)
def test_no_arrow_leads_upward_inside_a_folder(folder: str) -> None:
    layers = LAYERS[folder]
    places = {name: at for at, names in enumerate(layers) for name in names.split()}
    for name, path in MODULES.items():
        outer, _, inner = name.partition("/")
        if outer != folder or inner == "__init__":
            continue
        own = inner.split("/")[0]
        for used in find_imports(walk(path)):
            other = used.removeprefix(f"{folder}/").split("/")[0]
            if used.startswith(f"{folder}/") and other not in {own, "__init__"}:
                assert places[other] < places[own], f"{name}: {used}"


def test_an_extra_can_be_taken_away() -> None:
    """The core and the other extras do not know it: no import, and no string that is its name.

    Wire formats have words of their own, which some extras are named after.
    """
    for name, path in MODULES.items():
        own = "/".join(name.split("/")[:2])
        extra = find_extras().get(own.removeprefix("extras/"))
        needed = () if extra is None else (*extra.needs, *extra.adds_to)
        others = {f"extras/{one}" for one in EXTRAS} - {own, *(f"extras/{one}" for one in needed)}
        imported = {"/".join(one.split("/")[:2]) for one in find_imports(walk(path))}
        constants = (one.value for one in walk(path) if isinstance(one, ast.Constant))
        named = {f"extras/{one}" for one in constants if isinstance(one, str)}
        assert not others & imported, name
        speaks = name.startswith("dialects/") or (extra is not None and extra.find_formats)
        assert speaks or name in SPEAK or not others & named, name


def test_no_text_of_the_core_sends_people_to_an_extra() -> None:
    """It may be missing: `Extra.next_steps` has what an extra offers instead."""
    for name, path in MODULES.items():
        nodes = [] if name.startswith("extras/") else walk(path)
        prose = {id(one.value) for one in nodes if isinstance(one, ast.Expr)}
        for one in nodes:
            if isinstance(one, ast.Constant) and id(one) not in prose:
                assert not re.search(r"\b(console|Grafana|Stripe)\b", str(one.value)), name


def test_one_extra_gives_advice() -> None:
    """The first one would be asked alone."""
    assert sum(extra.make_advice is not None for extra in find_extras().values()) <= 1


def test_nobody_else_asks_which_dialect_it_is() -> None:
    """The `Caller` and `Upstream` of dialects say how they differ."""
    for name, path in MODULES.items():
        for node in walk(path):
            if isinstance(node, ast.Compare) and not name.startswith("dialects/"):
                sides = {getattr(one, "value", None) for one in (node.left, *node.comparators)}
                texts = {one for one in sides if isinstance(one, str)}
                assert not texts & {"chat", "messages", "demo"}, f"{name}:{node.lineno}"


IMPORT_AND_LOOK = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
import dataclasses, json, orjson  # what a library brings along is not the core's doing
before = set(sys.modules)
for name in sys.argv[2:]:
    importlib.import_module(name)
print(*sorted(set(sys.modules) - before))
"""


def run(code: str, *names: str) -> str:
    """Run code in a fresh interpreter that sees the package, with dotted names of modules."""
    dotted = [f"gateway.{name}".replace("/", ".") for name in names]
    command = [sys.executable, "-W", "error", "-c", code, str(ROOT.parent), *dotted]
    # Coverage, if it is measured, imports modules of its own.
    environment = {name: value for name, value in os.environ.items() if "COVERAGE" not in name}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=300, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_dialects_and_the_base_do_no_io() -> None:
    core = [name for name in NAMES if name in CORE or name.startswith("dialects")]
    folders = {name.split("/")[0] for name in CORE} - {"base"}
    assert len(core) > len(CORE)
    alone = [name for name in core if name.split("/")[0] not in folders]
    assert not set(run(IMPORT_AND_LOOK, *alone).split()) & WORLD


def find_world(name: str) -> set[str]:
    """Find what a module imports of libraries that do I/O, inside its functions, too."""
    named = set()
    for node in walk(MODULES[name]):
        if isinstance(node, ast.Import):
            named |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            named.add((node.module or "").split(".")[0])
    return named & WORLD


@each_row("name", sorted(CORE))
def test_the_core_names_nothing_that_does_io(name: str) -> None:
    """A folder's `__init__` loads its neighbours, so here the import statements are read."""
    assert not find_world(name)
    used = find_imports(walk(MODULES[name])) - {"config/records"}
    assert {one.split("/")[0] for one in used} <= {"base", "dialects", "ledger"}


def find_format_modules() -> list[str]:
    """Find the modules of extras that bring wire formats, such as the Responses dialect."""
    extras = [name for name, extra in find_extras().items() if extra.find_formats]
    return [one for one in MODULES for name in extras if one.startswith(f"extras/{name}/")]


@each_row("name", find_format_modules())
def test_formats_of_extras_name_nothing_that_does_io(name: str) -> None:
    """They hold to what holds for `dialects/`. An `__init__` names what the extra adds elsewhere, too."""
    if name in DO_IO:
        assert find_world(name), f"{name} does no I/O: it need not be in the list"
        return
    assert not find_world(name)
    used = {one.split("/")[0] for one in find_imports(walk(MODULES[name])) - {"upstream/demo"}}
    pure = {"base", "config", "dialects", "extension", "extras", "ledger"}
    assert name.endswith("/__init__") or used - {"upstream"} <= pure


def test_every_module_can_be_imported_first() -> None:
    """No module needs another to have been imported before it: what they run at first has no cycle.

    A folder is being imported when its modules are, so they do not wait for it.
    """
    needed = {}
    for name, path in MODULES.items():
        own = name.removesuffix("/__init__")
        used = find_imports(parse(path).body)
        used |= {one.rpartition("/")[0] for one in used} - {""}
        needed[own] = {one for one in used if not f"{own}/".startswith(f"{one}/")}
    TopologicalSorter(needed).prepare()


def test_every_private_function_is_used() -> None:
    """One that is named once is dead, or overrides what has another name by now."""
    words = Counter(word for path in FILES for word in re.findall(r"\w+", path.read_text("utf-8")))
    private = {
        node.name: path.name
        for path in FILES
        for node in walk(path)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and re.match(r"_[^_]", node.name)
    }
    assert {name: file for name, file in private.items() if words[name] == 1} == {}


def measure_functions(path: Path) -> Iterator[tuple[str, int]]:
    """Give each function's name and length in lines, from `def` to its last."""
    for node in walk(path):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert node.end_lineno is not None
            yield f"{path.name}:{node.name}", node.end_lineno - node.lineno + 1


def test_functions_are_small() -> None:
    lengths = dict(found for path in FILES for found in measure_functions(path))
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}


def test_files_are_short() -> None:
    lengths = {name: path.read_bytes().count(b"\n") for name, path in MODULES.items()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


def test_few_files_are_tiny() -> None:
    """Many small files of one subject show no reader the whole of it."""
    lengths = {
        name: path.read_bytes().count(b"\n")
        for name, path in MODULES.items()
        if not name.endswith("__init__")
    }
    tiny = {name: lines for name, lines in lengths.items() if lines < TINY_LINES}
    assert len(tiny) * 100 < MAX_TINY_PERCENT * len(lengths), tiny


@each_row("word", ["TODO", "FIXME", "XXX", "NotImplementedError"])
def test_nothing_is_unfinished(word: str) -> None:
    assert [name for name, path in MODULES.items() if word in path.read_text("utf-8")] == []
