"""Facts of a process: its exit code, version, commit and name, and which files its user cannot use.

Each failure of a command also has a message on stderr. The message about an obstacle says who owns the
file and what to type.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import re
import shlex
import stat
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


@cache
def find_version() -> str:
    """Return the version of this process, which looks it up as it starts."""
    return _find_version()


def _find_version() -> str:
    """Return the installed version; `unknown` if the source is run without being installed."""
    from importlib import metadata  # imported only here: 0.8 MiB

    try:
        return metadata.version("gateway")
    except metadata.PackageNotFoundError:
        return UNKNOWN


COMMIT_CHARS: Final = 10
"""Characters of a commit that are shown: enough to tell commits apart, as with Git's own short form."""
_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


@cache
def find_commit() -> str:
    """Return the commit of this process; "" if nothing tells it."""
    return _find_commit()


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


READ: Final = os.R_OK
WRITE: Final = os.R_OK | os.W_OK


def find_obstacle(path: Path, needs: int) -> str | None:
    """Return the obstacle between this user and a file; None if there is none.

    `needs`: READ, or WRITE, which includes making the file and others beside it. A file that does
    not exist is no obstacle.
    """
    folder = path.absolute().parent
    if problem := _find_folder_obstacle(folder):
        return problem
    if needs == WRITE and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return "its disk is mounted read-only; mount it for writing, or name a file on another"
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    except OSError as error:
        return _describe_name(error)
    if found is not None and (problem := _find_file_obstacle(path, found, needs)):
        return problem
    if needs == WRITE and not _may(folder, WRITE | os.X_OK):
        return _blame(f"the folder {folder}", folder, folder.stat())
    return None


def _find_file_obstacle(path: Path, found: os.stat_result, needs: int) -> str | None:
    if stat.S_ISDIR(found.st_mode):
        return "it is a folder; name a file in it"
    if needs == WRITE and not stat.S_ISREG(found.st_mode):
        return "it is not an ordinary file; name another"
    return None if _may(path, needs) else _blame("it", path, found)


def _may(path: Path, needs: int) -> bool:
    # os.access checks the real user by default, but files are opened as the effective user.
    return os.access(path, needs, effective_ids=os.access in os.supports_effective_ids)


def _find_folder_obstacle(folder: Path) -> str | None:
    """Return why nothing in a folder can be reached."""
    for one in (*reversed(folder.parents), folder):
        try:
            found = one.stat()
        except FileNotFoundError:
            if one.name.startswith("~"):
                return f"{one.name} stands for no home folder here; write the whole path"
            return f"the folder {one} does not exist; type `mkdir -p {shlex.quote(str(folder))}`"
        except OSError as error:
            return _describe_name(error)
        if not stat.S_ISDIR(found.st_mode):
            return f"{one} is a file, not a folder"
        if not _may(one, os.X_OK):
            return _blame(f"the folder {one}", one, found)
    return None


def _describe_name(error: OSError) -> str:
    """Say what is wrong with a path that can lead nowhere."""
    if error.errno == errno.ENAMETOOLONG:
        return "its name is too long; write a shorter one"
    if error.errno == errno.ELOOP:
        return "its symbolic links lead in a circle; name the file itself"
    return str(error.strerror)


def _blame(named: str, path: Path, found: os.stat_result) -> str:
    """Say who owns a file or folder, and how this user gets access."""
    user, quoted = os.geteuid(), shlex.quote(str(path))
    if found.st_uid == user:
        return f"{named} has a mode that forbids it; type `chmod u+rwX {quoted}`"
    whose = f"{named} belongs to the user {name_user(found.st_uid)}, and this is {name_user(user)}"
    if path.parent.stat().st_uid == user:  # a command made it as another user
        return f"{whose}; type `sudo chown {shlex.quote(name_user(user))} {quoted}`"
    sudo = f"sudo -u {shlex.quote(name_user(found.st_uid))}" if found.st_uid else "sudo"
    return f"{whose}; put `{sudo}` in front of the command"


def name_user(uid: int) -> str:
    """Return a user's name, or the number of one without a name, as in containers."""
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"#{uid}"
