"""Nothing in the repository cites a file that is not there."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests import ROOT
from tests.support.rows import each_row

FOLDERS: Final = (".ci", "gateway", "tests")
TEXTS: Final = frozenset({".css", ".html", ".js", ".md", ".py", ".sql", ".toml"})

LINK: Final = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
DOCUMENT: Final = re.compile(r"(?<![\w/.:-])[\w./-]+\.md\b")
MODULE: Final = re.compile(r"(?<![\w/.:*-])[\w./-]+\.py\b")
PLACE: Final = re.compile(r"(?<![\w/.:-])(?:\.ci|gateway|tests)/[\w./-]*[\w/]")
COMMAND: Final = re.compile(r"python -m ((?:gateway|tests)[\w.]*\w)")


COMMENT: Final = re.compile(r"(?m)(?:^ *|(?<=\S)  )# .*$")


def list_files() -> list[Path]:
    inside = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    return sorted(
        path
        for path in (*ROOT.iterdir(), *inside)
        if path.is_file() and (path.suffix in TEXTS or path.parent.name == ".ci")
    )


FILES: Final = list_files()
NAMES: Final = [f"/{path.relative_to(ROOT).as_posix()}" for path in FILES]


def group_files() -> dict[str, list[Path]]:
    """Files by their folder, two levels deep."""
    groups: dict[str, list[Path]] = {}
    for path in FILES:
        folder = "/".join(path.relative_to(ROOT).parts[:-1][:2])
        groups.setdefault(folder or "top level", []).append(path)
    return groups


def read_prose(path: Path) -> str:
    """Return what a file says to its readers: the docstrings and comments of Python, else everything."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return text
    return "\n".join([*COMMENT.findall(text), *list_docstrings(ast.parse(text).body)])


def list_docstrings(body: list[ast.stmt]) -> Iterator[str]:
    """Give the strings that stand by themselves in a module, its classes and its functions."""
    for node in body:
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))):
                yield said
            case (
                ast.ClassDef(body=inner)
                | ast.FunctionDef(body=inner)
                | ast.AsyncFunctionDef(body=inner)
            ):
                yield from list_docstrings(inner)
            case _:
                pass


def exists(cited: str, path: Path) -> bool:
    """Whether a cited path exists from the citing file's folder, or one above, or as a module."""
    above = [folder for folder in path.parents if folder.is_relative_to(ROOT)]
    return any((folder / f"{cited}{suffix}").exists() for folder in above for suffix in ("", ".py"))


def find_missing(path: Path) -> Iterator[str]:
    prose = read_prose(path)
    links = LINK.findall(prose) if path.suffix == ".md" else []
    cited = [one for one in links if "://" not in one]
    cited += DOCUMENT.findall(prose) + PLACE.findall(prose)
    cited += [name.replace(".", "/") for name in COMMAND.findall(prose)]
    yield from (one for one in cited if not exists(one, path))
    modules = MODULE.findall(prose)
    yield from (one for one in modules if not any(name.endswith(f"/{one}") for name in NAMES))


@each_row("files", group_files().values())
def test_every_cited_file_is_there(files: list[Path]) -> None:
    missing = {
        path.relative_to(ROOT).as_posix(): found
        for path in files
        if (found := list(find_missing(path)))
    }
    assert missing == {}
