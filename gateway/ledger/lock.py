"""The lock beside the database: one serving process, since holds live in its memory."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from gateway.ledger.base import LedgerError, LedgerLocked

FILE_MODE: Final = 0o600


def take_lock(path: Path) -> int:
    """Lock `<path>.lock` for the life of this process; gives the descriptor to close.

    The file stays when the lock goes: unlinking it would let two processes lock two files.

    Raises:
        LedgerLocked: another process serves from this database.
        LedgerError: the lock file cannot be made.
    """
    lock_path = path.with_name(path.name + ".lock")
    try:
        descriptor = os.open(lock_path, os.O_CREAT | os.O_RDWR, FILE_MODE)
    except OSError as error:
        raise LedgerError(f"{lock_path}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise LedgerLocked(f"{path}: another gateway serves from this database") from error
    return descriptor
