"""Obstacles between the user of this process and a file: who owns it, and what to type."""

from __future__ import annotations

import errno
import os
import pwd
import shlex
import stat
from pathlib import Path
from typing import Final

_WRITE: Final = os.R_OK | os.W_OK
_FORBIDDEN: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})
_MISLED: Final = frozenset(
    {errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.ENOENT, errno.ENOTDIR}
)


def explain_error(path: Path, number: int | None) -> str | None:
    """Return what is in the way of a file; None if the error is not about its path, as on a full disk."""
    if number not in _FORBIDDEN | _MISLED:
        return None
    if number != errno.EISDIR and os.path.isdir(path):  # noqa: PTH112 - Path.is_dir raises errors
        path /= "file"  # a folder that is used as one is looked at as by whoever makes a file in it
    reason = find_obstacle(path, os.R_OK)
    # Only a refusal can be about writing; a missing file is not one.
    return reason or (find_obstacle(path, os.W_OK) if number in _FORBIDDEN else None)


def find_obstacle(path: Path, mode: int) -> str | None:
    """Return the obstacle between this user and a file; None if there is none.

    `mode`: os.R_OK to read, or os.W_OK to write too, which includes making the file and others beside it. A file
    that does not exist is no obstacle.
    """
    folder, needs = path.absolute().parent, mode | os.R_OK
    if problem := _find_folder_obstacle(folder):
        return problem
    if needs == _WRITE and os.statvfs(folder).f_flag & os.ST_RDONLY:
        return "its disk is mounted read-only; mount it for writing, or name a file on another"
    try:
        found = path.stat()
    except FileNotFoundError:
        found = None
    except OSError as error:
        return _describe_name(error)
    if found is not None and (problem := _find_file_obstacle(path, found, needs)):
        return problem
    if needs == _WRITE and not _may(folder, _WRITE | os.X_OK):
        return _blame(f"the folder {folder}", folder, folder.stat())
    return None


def _find_file_obstacle(path: Path, found: os.stat_result, needs: int) -> str | None:
    if stat.S_ISDIR(found.st_mode):
        return "it is a folder; name a file in it"
    if needs == _WRITE and not stat.S_ISREG(found.st_mode):
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
