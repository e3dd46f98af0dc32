"""The packages that `.ci/run` installs: exact versions with hashes, enough for the whole of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests import ROOT

LOCK: Final = (ROOT / ".ci" / "lock.txt").read_text(encoding="utf-8")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ENTRY: Final = re.compile(
    r"([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
)
COMMENT: Final = re.compile(r"(?m)^ *#.*\n")


def test_every_line_pins_a_version_and_its_hashes() -> None:
    """So no registry, nor anything else, is named."""
    assert ENTRY.sub("", COMMENT.sub("", LOCK)).strip() == ""
    assert "://" not in LOCK


def test_the_lock_satisfies_the_project() -> None:
    """`pip-compile` writes the lock anew."""
    pinned = {name: version for name, version, _ in ENTRY.findall(LOCK)}
    project = PROJECT["project"]
    asked = (
        *project["dependencies"],
        *chain.from_iterable(project["optional-dependencies"].values()),
        *PROJECT["build-system"]["requires"],
    )
    for requirement in map(Requirement, asked):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, requirement
        assert requirement.specifier.contains(version), requirement
