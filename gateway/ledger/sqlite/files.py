"""The files of a database: the server's lock, and whether they are still there.

SQLite goes on writing to a removed or replaced file, and these writes are lost. So the serving process
notes in its lock file which files it has open. Other programs compare those with the files they find and
use, and a start without a database notices that there was one.
"""

from __future__ import annotations

import fcntl
import os
import stat
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from gateway.ledger.records import FilesLost, LedgerError, LedgerLocked
from gateway.ledger.sqlite.faults import explain

FILE_MODE: Final = 0o600
"""Only the owner reads and writes: the database has everybody's accounts."""
_MARK_WORDS: Final = 4
"""The lock file's mark has the process, then what identifies the database, its -wal, its -shm."""
_MARK_BYTES: Final = 256
"""Bytes read of the mark: four words of at most 41 characters."""
_START_FIELD: Final = 19
"""The position of `starttime` behind the name of the program in /proc/PID/stat, see proc(5)."""
_TRIES: Final = 3
"""Tries to lock: other programs may be looking, by `is_served`."""
_RETRY_SECONDS: Final = 0.01
"""The pause between two tries; to look takes microseconds."""
TICK_NS: Final = 20_000_000
"""Nanoseconds, twice the longest tick of a system: changes within one tick have the same time."""


class FileWatch:
    """The files that a process has open under the names of one database.

    `serving_pid` is the process, if it is the one that serves.
    """

    def __init__(self, path: Path, *, serving_pid: int | None = None) -> None:
        self.path = path
        self._serving_pid = serving_pid
        self._opened = _identify_all(path)
        self._names = tuple(map(os.fspath, (*_list_files(path), name_beside(path, ".lock"))))
        self._folders = tuple({os.path.dirname(name) or "." for name in self._names})  # noqa: PTH120
        self._seen: object = None
        self._still: object = None

    def check(self, *, is_brief: bool = False) -> None:
        """Raise FilesLost if the names have other files now, or a gateway serves from others.

        The whole check takes 100 µs, a quarter of the writer's time. So it is only made when a glance,
        which takes 10, shows something new: another file under a name, or another mark. A brief check does
        not even glance unless a name in the folder was made, removed or changed.
        """
        still = self._look_at_folders()
        if is_brief and still is not None and still == self._still:
            return
        try:
            *files, lock = map(os.stat, self._names)
            mark = (lock.st_dev, lock.st_ino, lock.st_mtime_ns, lock.st_size)
            seen = [mark, *((one.st_dev, one.st_ino) for one in files)]
        except OSError:
            seen = None
        if seen is None or seen != self._seen:
            check_served(self.path)
            _compare(self.path, self._opened, self._serving_pid)
            self._seen = seen
        self._still = still

    def _look_at_folders(self) -> object:
        """Return a marker that changes with each name in the folders; None if that is not certain."""
        # Times of files are as exact as the system's tick, so two changes in one have the same.
        settled_ns = time.time_ns() - TICK_NS
        marker = []
        try:
            for one in map(os.stat, self._folders):
                if one.st_mtime_ns > settled_ns:
                    return None
                marker.append((one.st_dev, one.st_ino, one.st_mtime_ns))
        except OSError:
            return None
        return marker


def take_lock(path: Path) -> int:
    """Lock `<path>.lock` for the life of this process; return the descriptor to close.

    One process serves from a database, because holds live in its memory. The lock file stays when
    the lock goes: unlinking it would let two processes lock two files. The database itself is not
    locked: to close a descriptor of it would drop the locks that SQLite has on it in this process.
    `check_names` refuses the second name that would have a lock of its own.

    Raises:
        LedgerLocked: another process serves from this database.
        LedgerError: the lock file cannot be made.
    """
    lock_path = name_beside(path, ".lock")
    try:
        # Not truncated: it may have the mark of a gateway that serves.
        descriptor = os.open(lock_path, os.O_CREAT | os.O_RDWR, FILE_MODE)
    except OSError as error:
        raise explain(path, error) from error
    if not _lock(descriptor):
        os.close(descriptor)
        raise LedgerLocked(f"{path}: {_name_server(lock_path)}")
    # A killed process has left the mark of files that no process serves any more.
    _clear_mark(descriptor)
    return descriptor


@contextmanager
def marked(lock: int, path: Path) -> Iterator[None]:
    """Write into the lock file which files are served, until they are about to be closed.

    SQLite makes the log when the first connection opens and removes it when the last one closes;
    in between its files stay the same. Raises LedgerError.
    """
    try:
        pid = os.getpid()
        mark = " ".join((f"{pid}:{_read_start(pid)}", *_identify_all(path)))
        os.pwrite(lock, mark.encode(), 0)
    except OSError as error:
        raise explain(name_beside(path, ".lock"), error) from error
    try:
        yield
    finally:
        _clear_mark(lock)


def check_names(path: Path) -> None:
    """Refuse a database with a second name, unless a gateway serves by this one.

    SQLite names the log by the database, so two names would have two logs. Raises LedgerError.
    """
    try:
        found = path.stat()
    except OSError:
        return  # to open it says why
    links = found.st_nlink if stat.S_ISREG(found.st_mode) else 1
    served = _read_mark(name_beside(path, ".lock")).split()[1:]
    if links > 1 and not (served == _identify_all(path) and is_served(path)):
        raise LedgerError(
            f"{path}: the file has {links} names (hard links), and each would have a log of its own;"
            " keep one name"
        )


def check_served(path: Path) -> None:
    """Raise FilesLost if a gateway serves from other files than these names have now."""
    words = _read_mark(name_beside(path, ".lock")).split()
    # No gateway serves, or it is just beginning to.
    if len(words) != _MARK_WORDS:
        return
    try:
        _compare(path, words[1:], int(words[0].partition(":")[0]))
    except FilesLost:
        if is_served(path):
            raise


def check_absence(path: Path) -> None:
    """Refuse to make a database where there was one. Raises LedgerError.

    An empty file is none: a copy on a full disk leaves one, and SQLite would delete the log beside it.
    """
    lock_path, log_path = name_beside(path, ".lock"), name_beside(path, "-wal")
    is_there = path.exists()
    if is_there and path.stat().st_size:
        return
    trace = lock_path if _read_mark(lock_path) else log_path if log_path.exists() else None
    if trace is not None:
        found = "the file is empty" if is_there else "there is no database"
        raise LedgerError(
            f"{path}: {found}, but {trace.name} shows that there was one. Put it back"
            f" or restore a backup; to begin with empty books, delete {trace.name}"
        )


def is_marked(path: Path) -> bool:
    """Return whether a process serves, or was killed while it served: its lock file names the files."""
    return len(_read_mark(name_beside(path, ".lock")).split()) == _MARK_WORDS


def is_served(path: Path) -> bool:
    """Return whether a process serves from this database; to look takes the lock for microseconds."""
    try:
        descriptor = os.open(name_beside(path, ".lock"), os.O_RDONLY)
    except OSError:  # no lock file: nobody ever served
        return False
    try:
        # Shared, so that two who look do not take each other for a server.
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False


def find_server(path: Path) -> int | None:
    """Return the id of the process that serves from this database; None if there is none.

    The result is also None if the id belongs to another process because the serving one is in a
    container. Where /proc hides it, as it does from the commands of a sandboxed unit, the id has to do.
    """
    words = _read_mark(name_beside(path, ".lock")).split()
    if len(words) != _MARK_WORDS or not is_served(path):
        return None
    pid, _, started = words[0].partition(":")
    return int(pid) if _read_start(int(pid)) in {started, ""} else None


def _read_start(pid: int) -> str:
    """Return when a process started, in ticks since the boot; "" if that cannot be read."""
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return ""
    # The program's name stands in brackets and may have spaces and brackets itself (proc(5)).
    return status.rpartition(")")[2].split()[_START_FIELD]


def _name_server(lock_path: Path) -> str:
    """Say that another process serves, and which, if the lock file has its mark."""
    pid, colon, _ = _read_mark(lock_path).partition(":")
    process = f", process {pid}" if colon else ""
    return (
        f"another gateway serves from this database{process}; stop it first, or name another file as"
        " [storage] path"
    )


def name_beside(path: Path, suffix: str) -> Path:
    """Name a file beside the database, as SQLite does: behind a symbolic link."""
    path = Path(os.path.realpath(path))
    return path.with_name(path.name + suffix)


def _identify_all(path: Path) -> list[str]:
    return [_identify(one) for one in _list_files(path)]


def _list_files(path: Path) -> tuple[Path, ...]:
    return path, name_beside(path, "-wal"), name_beside(path, "-shm")


def _identify(path: Path) -> str:
    """Return the device and number of a file; "-" if there is none."""
    try:
        found = path.stat()
    except OSError:
        return "-"
    return f"{found.st_dev}:{found.st_ino}"


def _compare(path: Path, wanted: Sequence[str], serving_pid: int | None) -> None:
    for file, identity in zip(_list_files(path), wanted, strict=True):
        if _identify(file) != identity:
            raise FilesLost(
                f"{file} was removed or replaced while it was in use"
                + ("" if serving_pid is None else _say_rescue(path, serving_pid))
            )


def _say_rescue(path: Path, serving_pid: int) -> str:
    return (
        ". Before you stop the gateway, put the same file back, or copy"
        f" {path.name} and its -wal from /proc/{serving_pid}/fd: what is in them is nowhere else"
    )


def _read_mark(lock_path: Path) -> str:
    try:
        return lock_path.read_text()[:_MARK_BYTES]
    except OSError:
        return ""


def _clear_mark(lock: int) -> None:
    """Name no files any more. One byte stays, for `check_absence`.

    The length changes in one step, so nobody reads half a mark, now or when it is written again.
    """
    os.ftruncate(lock, min(os.fstat(lock).st_size, 1))


def _lock(descriptor: int) -> bool:
    for _ in range(_TRIES):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(_RETRY_SECONDS)
            continue
        return True
    return False
