"""Nothing in the repository cites a file that is not there."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests import ROOT

FOLDERS: Final = (".ci", "gateway", "tests")
TEXTS: Final = frozenset({".css", ".html", ".js", ".md", ".py", ".sql", ".toml"})

LINK: Final = re.compile(r"\]\(([^)#\s]+)[^)]*\)")
FILE: Final = re.compile(r"(?<![\w/.:*-])[\w./-]+\.(?:md|py)\b")
PLACE: Final = re.compile(r"(?<![\w/.:-])(?:\.ci|gateway|tests)/[\w./-]*[\w/]")
COMMAND: Final = re.compile(r"python -m ((?:gateway|tests)[\w.]*\w)")
INVENTED: Final = {
    "a.py", "script.py", "bytes_table.py", "sitecustomize.py", "2fpages.py", "5cpages.py",
}  # fmt: skip
"""Files that tests write, or name to somebody."""

FILES: Final = [
    path
    for path in sorted((*ROOT.iterdir(), *(p for one in FOLDERS for p in (ROOT / one).rglob("*"))))
    if path.is_file() and (path.suffix in TEXTS or path.parent.name == ".ci")
]
EXTRA: Final = re.compile(r"\bextras(?:/\w+(?=/))?")
ENDS: Final = {
    "/".join(parts[first:])
    for parts in (path.relative_to(ROOT).parts for path in FILES)
    for first in range(len(parts))
}
"""Each file by its name, alone and behind some of its folders."""


def exists(cited: str, path: Path) -> bool:
    """Return whether a cited path exists from the citing file's folder, or one above, or as a module.

    What an extra had goes with it.
    """
    whole = cited if cited[0] != "." else (path.parent / cited).resolve().as_posix()
    if (extra := EXTRA.search(whole)) and not (ROOT / "gateway" / extra[0]).exists():
        return True
    above = [folder for folder in path.parents if folder.is_relative_to(ROOT)]
    return any((folder / f"{cited}{suffix}").exists() for folder in above for suffix in ("", ".py"))


def find_missing(path: Path) -> Iterator[str]:
    text = path.read_text(encoding="utf-8")
    cited = [one for one in LINK.findall(text) if path.suffix == ".md" and "://" not in one]
    cited += PLACE.findall(text)
    cited += [name.replace(".", "/") for name in COMMAND.findall(text)]
    yield from (one for one in cited if not exists(one, path))
    files = (one for one in FILE.findall(text) if not exists(one, path))
    yield from (one for one in files if one.lstrip("./") not in ENDS | INVENTED)


@pytest.mark.no_cover
def test_every_cited_file_is_there() -> None:
    missing = {path.relative_to(ROOT).as_posix(): list(find_missing(path)) for path in FILES}
    assert {name: found for name, found in missing.items() if found} == {}
