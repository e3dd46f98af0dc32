"""Facts of a process: its exit code, version, commit and name.

Each failure of a command also has a message on stderr.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from pathlib import Path
from typing import Final


class ExitCode(IntEnum):
    """The result of a command."""

    OK = 0
    """The command did what it says."""
    FAILED = 1
    """The command was refused, its output could not be written, prices drift from a list or are not in it, or the gateway is not ready."""
    USAGE = 2
    """The arguments are wrong. argparse uses the same code."""
    AUDIT_MISMATCH = 3
    """The books do not add up."""
    NOT_FOUND = 5
    """The account, key, code, request, database or price list does not exist."""
    UNAVAILABLE = 69
    """The database is locked or unusable, or the address cannot be bound (EX_UNAVAILABLE)."""
    CONFIG = 78
    """The configuration is missing or invalid, or a price list is invalid (EX_CONFIG)."""
    INTERRUPTED = 130
    """128 + SIGINT, as shells report it."""


UNKNOWN: Final = "unknown"


def _find_version() -> str:
    """Return the installed version; `unknown` if the source is run without being installed."""
    from importlib import metadata  # imported only here: 0.8 MiB

    try:
        return metadata.version("gateway")
    except metadata.PackageNotFoundError:
        return UNKNOWN


find_version: Final = cache(_find_version)
"""Returns the version of this process, which looks it up as it starts."""
COMMIT_CHARS: Final = 10
"""Characters of a commit that are shown: enough to tell commits apart, as with Git's own short form."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def find_installed() -> tuple[str, str]:
    """Return version and commit of the program on disk, which is replaced while a process runs."""
    return _find_version(), _find_commit()


def _find_commit() -> str:
    """Return the commit of this program's source; "" if nothing tells it.

    A build may have recorded it in the file COMMIT, as `git archive` does, or pip, if it fetched it with git;
    a checkout has it in git's own files.
    """
    package = Path(__file__).parents[1]
    found = _read(package / "COMMIT")
    if not _COMMIT.fullmatch(found):
        found = _read_head(package.parent / ".git") or _read_origin()
    return found[:COMMIT_CHARS] if _COMMIT.fullmatch(found) else ""


find_commit: Final = cache(_find_commit)
"""Returns the commit of this process; "" if nothing tells it."""


@cache
def describe_version(schema: int) -> str:
    """Say which version of the program this is, and which schema its database has."""
    commit = find_commit()
    return f"{find_version()}, {f'commit {commit}, ' if commit else ''}schema {schema}"


def _read_head(git: Path) -> str:
    """Return the commit that a checkout is at, see gitrepository-layout(5)."""
    if git.is_file():  # of a work tree, or of a submodule
        git = git.parent / _read(git).removeprefix("gitdir: ")
    head = _read(git / "HEAD")
    if not head.startswith("ref: "):
        return head
    name = head.removeprefix("ref: ")
    shared = git / (_read(git / "commondir") or ".")
    packed = _read(shared / "packed-refs").splitlines()
    packed_commit = next((line.split()[0] for line in packed if line.endswith(f" {name}")), "")
    return _read(shared / name) or packed_commit


def _read_origin() -> str:
    """Return the commit that pip fetched, see PEP 610."""
    from importlib import metadata

    try:
        origin = json.loads(metadata.distribution("gateway").read_text("direct_url.json") or "{}")
    except (metadata.PackageNotFoundError, ValueError):
        return ""
    return str(origin.get("vcs_info", {}).get("commit_id", ""))


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError):  # a damaged file may have any bytes
        return ""


def name_program(called: str, folders: Sequence[str]) -> str:
    """Return the words that call this program again, from `argv[0]` and the folders of PATH.

    The kernel calls a script that it found by PATH by its whole path.
    """
    path = Path(called)
    if path.name != "gateway":
        return "python -m gateway"
    return path.name if str(path.parent) in folders else shlex.quote(called)


PROGRAM: Final = name_program(sys.argv[0], os.get_exec_path())
"""The program's name in help, errors and advice."""
