"""The package keeps its own rules: the map, the I/O-free core, small functions, nothing unfinished."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gateway

ROOT = Path(gateway.__file__).parent
FILES = sorted(ROOT.rglob("*.py"))
MODULES = {path.relative_to(ROOT).with_suffix("").as_posix(): path for path in FILES}
ENTRY = re.compile(r"^    ([a-z0-9_/]+)  +\S", re.MULTILINE)

CORE = ("sse", "usage", "money", "limits", "apikeys", "errors")
WORLD = ("asyncio", "aiohttp", "aiosqlite", "sqlite3", "socket", "ssl", "selectors")
MAX_FUNCTION_LINES = 60
MAX_FILE_LINES = 400


def dotted(name: str) -> str:
    return ".".join(("gateway", *name.removesuffix("__init__").strip("/").split("/"))).rstrip(".")


def run(code: str, *arguments: str) -> str:
    """Run in a fresh interpreter, which sees the package where this one does."""
    command = [sys.executable, "-W", "error", "-c", code, str(ROOT.parent), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_is_on_the_map_once_and_nothing_else() -> None:
    named = ENTRY.findall(gateway.__doc__ or "")
    assert sorted(named) == sorted(name for name in MODULES if not name.endswith("__init__"))


IMPORT_AND_LOOK = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
import dataclasses, json, orjson  # what a library brings along is not the core's doing
before = set(sys.modules)
for name in sys.argv[2:]:
    importlib.import_module(name)
print(*sorted(set(sys.modules) - before))
"""


def test_the_core_does_no_io() -> None:
    core = [name for name in MODULES if name in CORE or name.startswith("dialects/")]
    assert len(core) >= len(CORE) + 10
    loaded = set(run(IMPORT_AND_LOOK, *map(dotted, core)).split())
    assert not loaded & set(WORLD)
    ours = {name for name in loaded if name.startswith("gateway.")}
    assert ours == {dotted(name) for name in core} | {"gateway.dialects"}


IMPORT_EACH_ALONE = """
import importlib, sys
sys.path.insert(0, sys.argv[1])
for name in sys.argv[2:]:
    for loaded in [one for one in sys.modules if one.split(".")[0] == "gateway"]:
        del sys.modules[loaded]
    importlib.import_module(name)
"""


def test_every_module_can_be_imported_first() -> None:
    """No module lives on another having been imported before it. `__main__` runs when imported."""
    run(IMPORT_EACH_ALONE, *(dotted(name) for name in MODULES if name != "__main__"))


LAYERS = (
    ("console/", re.compile(r"console/|app$")),
    ("cli", re.compile(r"cli|__main__$")),
)
"""Who may import what begins so."""
LEDGER_NEEDS = {"apikeys", "errors", "money", "tasks", "times"}


def imports(path: Path) -> set[str]:
    """Our modules that a module names, as the map writes them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names] + [node.module or ""]
            found |= {name.removeprefix("gateway.").replace(".", "/") for name in names}
    return found & set(MODULES)


def test_imports_lead_down() -> None:
    """The console and the command line stand on top: no request to /v1 needs either."""
    needs = {name: imports(path) for name, path in MODULES.items()}
    for prefix, allowed in LAYERS:
        users = {name for name in needs if any(one.startswith(prefix) for one in needs[name])}
        assert {name for name in users if not allowed.match(name)} == set()
    of_ledger = set().union(*(needs[name] for name in needs if name.startswith("ledger/")))
    assert {name for name in of_ledger if not name.startswith("ledger/")} <= LEDGER_NEEDS


def functions(path: Path) -> Iterator[tuple[str, int]]:
    """Each function's name and the lines of its body, docstring and signature apart."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[1] if ast.get_docstring(node) and node.body[1:] else node.body[0]
            assert node.end_lineno is not None
            yield f"{path.name}:{node.name}", node.end_lineno - first.lineno + 1


def test_functions_are_small() -> None:
    lengths = dict(found for path in FILES for found in functions(path))
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FUNCTION_LINES} == {}


def test_files_are_short() -> None:
    lengths = {name: path.read_bytes().count(b"\n") for name, path in MODULES.items()}
    assert {name: lines for name, lines in lengths.items() if lines > MAX_FILE_LINES} == {}


@pytest.mark.parametrize("word", ["TODO", "FIXME", "XXX", "NotImplementedError"])
def test_nothing_is_unfinished(word: str) -> None:
    assert [name for name, path in MODULES.items() if word in path.read_text("utf-8")] == []
