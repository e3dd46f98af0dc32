"""Choose the tests of a change, for `.ci/check`: `python -m tests.changed` prints their paths.

A change is what differs from where the branch left `main`, and what is not committed. A module has the test
files that mirror it: `gateway/api/bodies.py` has `tests/api/test_bodies.py`; or those that `elsewhere.txt` names.
A text has those that the README beside this file names; other files have the nearest tests that name them.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from fnmatch import fnmatch
from pathlib import Path
from typing import Final

from tests import ROOT

TESTS: Final = ROOT / "tests"
ALWAYS: Final = tuple(sorted(TESTS.glob("test_*.py")))
"""Tests of the whole package, which no change passes by: they take some ten seconds."""
IN_MEMORY: Final = ("config", "dialects")
"""Folders whose tests run as a whole: their modules work in pairs, and all take some ten seconds."""
LINE: Final = re.compile(r"(\w[\w/]*): (.+)")


def read_elsewhere() -> dict[str, list[Path]]:
    """Read the modules that have no test file of their name, and where they are tested."""
    lines = (TESTS / "elsewhere.txt").read_text(encoding="utf-8").splitlines()
    found = [line for one in lines if (line := LINE.fullmatch(one))]
    return {line[1]: [TESTS / name for name in line[2].split()] for line in found}


def mirror(module: str) -> Path:
    """Return the test file that a module should have: a path below the package, without its ending."""
    folder, _, name = module.rpartition("/")
    return TESTS / folder / f"test_{name}.py"


def find_tests(changed: str) -> list[Path]:
    """Find the tests of a changed file, a path below the repository; for some there are those of `ALWAYS` alone."""
    path = Path(changed)
    place, *folders = path.parts[:-1] or [""]
    if place not in {"gateway", "tests"} or path.suffix == ".md":
        return []
    if path.name.startswith("test_"):
        return [ROOT / path]
    module = "/".join([*folders, path.stem])
    own = [mirror(module), *read_elsewhere().get(module, ())]
    found = [one for one in own if one.exists()]
    if folders and folders[0] in IN_MEMORY:
        return [TESTS / folders[0]]
    if place == "gateway" and found:
        return found
    if place == "tests" and (players := find_players("/".join([*folders, path.name]))):
        return players
    return find_naming(TESTS.joinpath(*folders), [path.name.removesuffix(".py")])


def find_players(text: str) -> list[Path]:
    """Find the tests that the README names in the row of a text."""
    rows = (TESTS / "README.md").read_text(encoding="utf-8").splitlines()
    named = [re.findall(r"`([\w*./]+)`", row) for row in rows if row.startswith("|")]
    players = [
        TESTS / one for names in named if any(fnmatch(text, one) for one in names) for one in names
    ]
    return [one for one in players if one.name.startswith("test_") and one.exists()]


def find_naming(folder: Path, words: list[str]) -> list[Path]:
    """Find the nearest tests that name a file, or the folder that has it; if none does, all beside them."""
    while not (beside := [*folder.glob("test_*.py")]):
        words, folder = [*words, folder.name], folder.parent
    if folder == TESTS:
        return []
    named = re.compile(rf"\b(?:{'|'.join(map(re.escape, words))})\b")
    return [one for one in beside if named.search(one.read_text("utf-8"))] or beside


def list_changed() -> Iterator[str]:
    """List the changed files that are there; without a branch `main`, what is not committed."""
    base = _ask("merge-base", "HEAD", "main") or _ask("merge-base", "HEAD", "origin/main")
    yield from _ask("diff", "--name-only", "--diff-filter=d", *(base or ["HEAD"]))
    yield from _ask("ls-files", "--others", "--exclude-standard")


def _ask(*words: str) -> list[str]:
    done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


if __name__ == "__main__":
    chosen = {one for changed in list_changed() for one in find_tests(changed)} | {*ALWAYS}
    sys.stdout.writelines(f"{one.relative_to(ROOT)}\n" for one in sorted(chosen) if one.exists())
