"""The packages that `.ci/run` installs: exact versions with hashes, enough for the whole of pyproject.toml."""

from __future__ import annotations

import re
import tomllib
from itertools import chain
from typing import Final

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests import ROOT

LOCK: Final = (ROOT / ".ci" / "lock.txt").read_text(encoding="utf-8")
PROJECT: Final = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
ASKED: Final = (
    *PROJECT["project"]["dependencies"],
    *chain.from_iterable(PROJECT["project"]["optional-dependencies"].values()),
    *PROJECT["build-system"]["requires"],
)
ENTRY: Final = re.compile(
    r"([a-z0-9-]+)(?:\[[a-z,]+\])?==(\S+) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)"
)
COMMENT: Final = re.compile(r"(?m)^ *#.*\n")


KNOWN_HOLES: Final = {
    "aiohttp": ("3.14.3", "CVE-2026-69244"),
    "h11": ("0.16.0", "CVE-2025-43859: malformed chunks"),
    "idna": ("3.7", "CVE-2024-3651: quadratic time"),
    "orjson": ("3.11.6", "CVE-2025-67221: unbounded recursion"),
    "pytest": ("9.0.3", "CVE-2025-71176: a folder in /tmp that others can make first"),
    "requests": ("2.33.0", "CVE-2026-25645: a file in /tmp that others can make first"),
    "setuptools": ("78.1.1", "CVE-2025-47273: a path outside"),
    "urllib3": ("2.7.0", "CVE-2026-44431, 44432: headers to another host, bombs"),
}
"""Packages, the first version of each without a known hole, and the latest of the holes."""


def test_no_version_with_a_known_hole_is_asked_for_or_pinned() -> None:
    for requirement in map(Requirement, ASKED):
        name = canonicalize_name(requirement.name)
        if name in KNOWN_HOLES:
            first, hole = KNOWN_HOLES[name]
            floors = [Version(one.version) for one in requirement.specifier if one.operator == ">="]
            assert floors, requirement
            assert max(floors) >= Version(first), (requirement, hole)
    for name, version, _ in ENTRY.findall(LOCK):
        if name in KNOWN_HOLES:
            first, hole = KNOWN_HOLES[name]
            assert Version(version) >= Version(first), (name, version, hole)


def test_every_line_pins_a_version_and_its_hashes() -> None:
    """So no registry, nor anything else, is named."""
    assert ENTRY.sub("", COMMENT.sub("", LOCK)).strip() == ""
    assert "://" not in LOCK


def test_the_lock_satisfies_the_project() -> None:
    """`pip-compile` writes the lock anew."""
    pinned = {name: version for name, version, _ in ENTRY.findall(LOCK)}
    for requirement in map(Requirement, ASKED):
        version = pinned.get(canonicalize_name(requirement.name))
        assert version is not None, requirement
        assert requirement.specifier.contains(version), requirement
