"""Mutants: run the tests against the package with one small mistake each.

A mutant that survives shows a rule without a test, or a change that makes no difference. Each is
made in a copy of the repository, so an interrupted run leaves nothing behind. The tests of the
mutant's own folder run first, then all others of a plain run; the first failure ends a mutant.
"""

from __future__ import annotations

import ast
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from tests import ROOT

COPIED: Final = (
    "gateway", "tests", "pyproject.toml", "README.md", "gateway.toml", "LICENSE", ".ci",
)  # fmt: skip
SKIPPED: Final = frozenset({"gateway/__main__.py"})
SECONDS: Final = 600
"""The time-out of a run; a mutant that hangs counts as caught."""
COMPARISONS: Final[dict[type[ast.cmpop], type[ast.cmpop]]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
OPERATORS: Final[dict[type[ast.operator], type[ast.operator]]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Mutant:
    """One mistake: its place, and the statement with it."""

    path: str
    line: int
    before: str
    after: str
    source: str
    """The text of the whole module."""

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.before}  ->  {self.after}"


def find_places(tree: ast.Module) -> list[tuple[ast.AST, Callable[[], Callable[[], None]]]]:
    """Find nodes that can be changed, each with a function to change it that returns the undo."""
    documented = {id(node) for node in _find_inert(tree)}
    return [
        (node, change)
        for node in ast.walk(tree)
        if id(node) not in documented and (change := _find_change(node)) is not None
    ]


def _find_inert(tree: ast.Module) -> Iterator[ast.AST]:
    """Find docstrings, annotations and class decorators, which no request runs."""
    for node in ast.walk(tree):
        match node:
            case ast.Expr(value=ast.Constant(value=str())):
                yield node.value
            case ast.arg(annotation=ast.AST() as annotation):
                yield from ast.walk(annotation)
            case ast.AnnAssign(annotation=annotation):
                yield from ast.walk(annotation)
            case ast.FunctionDef(returns=ast.AST() as returns):
                yield from ast.walk(returns)
            case ast.ClassDef(decorator_list=decorators):
                yield from (inner for one in decorators for inner in ast.walk(one))
            case _:
                pass


def _find_change(node: ast.AST) -> Callable[[], Callable[[], None]] | None:  # noqa: C901, PLR0911 - a table
    match node:
        case ast.Compare(ops=[compared]) if other := COMPARISONS.get(type(compared)):
            return partial(_swap, node, "ops", [other()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if opposite := OPERATORS.get(type(op)):
            return partial(_swap, node, "op", opposite())
        case ast.BoolOp(op=ast.And()):
            return partial(_swap, node, "op", ast.Or())
        case ast.BoolOp(op=ast.Or()):
            return partial(_swap, node, "op", ast.And())
        case ast.UnaryOp(op=ast.Not(), operand=operand):
            return partial(_swap, node, "operand", ast.UnaryOp(ast.Not(), operand))
        case ast.Constant(value=bool() as value):
            return partial(_swap, node, "value", not value)
        case ast.Constant(value=int() as value):
            return partial(_swap, node, "value", value + 1)
        case ast.Return(value=ast.AST()):
            return partial(_swap, node, "value", ast.Constant(None))
        case ast.If(test=test) | ast.IfExp(test=test):
            return partial(_swap, node, "test", ast.UnaryOp(ast.Not(), test))
        case ast.Expr(value=ast.Call()):
            return partial(_swap, node, "value", ast.Constant(None))
        case _:
            return None


def _swap(node: ast.AST, field: str, value: object) -> Callable[[], None]:
    old = getattr(node, field)
    setattr(node, field, value)
    return lambda: setattr(node, field, old)


def make_mutants(seed: int, count: int, under: str) -> list[Mutant]:
    """Choose changes in a folder or module, weighted by the number of places in a module."""
    dice = random.Random(seed)
    places: list[tuple[Path, int]] = []
    for path in sorted((ROOT / "gateway").rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name.startswith(under) and name not in SKIPPED:
            tree = ast.parse(path.read_text(encoding="utf-8"))
            places += ((path, index) for index in range(len(find_places(tree))))
    return [_make_mutant(*place) for place in dice.sample(places, min(count, len(places)))]


def _make_mutant(path: Path, index: int) -> Mutant:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    node, change = find_places(tree)[index]
    statement = _find_statement(tree, node)
    before = ast.unparse(statement).partition("\n")[0]
    change()
    ast.fix_missing_locations(tree)
    after = ast.unparse(statement).partition("\n")[0]
    name = path.relative_to(ROOT).as_posix()
    return Mutant(name, statement.lineno, before[:120], after[:120], ast.unparse(tree))


def _find_statement(tree: ast.Module, wanted: ast.AST) -> ast.stmt:
    """Return the innermost statement around a node."""
    found: ast.stmt | None = None
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and any(inner is wanted for inner in ast.walk(node)):
            found = node
    assert found is not None
    return found


def play_mutants(seed: int, count: int, under: str, folder: Path) -> list[Mutant]:
    """Try each mutant in a copy of the repository; return those that no test noticed."""
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        elif source.exists():
            shutil.copy(source, folder / name)
    survivors = []
    for number, mutant in enumerate(make_mutants(seed, count, under), start=1):
        path = folder / mutant.path
        original = path.read_text(encoding="utf-8")
        _write(path, mutant.source, 2 * number)
        caught = is_caught(mutant, folder)
        _write(path, original, 2 * number + 1)
        print(f"{number:4} {'caught  ' if caught else 'SURVIVED'} {mutant}", flush=True)
        if not caught:
            survivors.append(mutant)
    return survivors


def _write(path: Path, source: str, number: int) -> None:
    """Write a module with a date of its own, as Python tells its bytecode by date and size."""
    path.write_text(source, encoding="utf-8")
    os.utime(path, (number, number))


def is_caught(mutant: Mutant, folder: Path) -> bool:
    """Return whether a test fails or the run hangs; the tests of its folder run first."""
    own = Path("tests", *Path(mutant.path).parent.parts[1:])
    scopes = (
        [own, Path("tests")]
        if (folder / own).is_dir() and own != Path("tests")
        else [Path("tests")]
    )
    return any(not _passes(folder, scope) for scope in scopes)


def _passes(folder: Path, scope: Path) -> bool:
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-n", "2", str(scope)]
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        return process.wait(SECONDS) in {pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED}
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        process.wait()
        return False
