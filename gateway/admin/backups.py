"""Copies of a whole ledger in new files."""

from __future__ import annotations

import os
from pathlib import Path

from gateway.ledger.records import Conflict, NotFound
from gateway.ledger.sql.books import Books


def back_up(books: Books, target: Path) -> int:
    """Write a copy of the whole ledger to a new file; return its size in bytes."""
    require_new(target, "a backup")
    return books.back_up(target)


def require_new(target: Path, what: str) -> None:
    """Raise Conflict if there is such a file, NotFound if there is no such folder."""
    if os.path.lexists(target):
        raise Conflict(f"{target} exists already; {what} overwrites nothing")
    if not target.parent.is_dir():
        raise NotFound(f"there is no folder {target.parent}")
