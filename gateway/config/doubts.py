"""Warnings of a configuration that is valid. `check` tells them, and so does the log at each start and reload."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from gateway.base.process import name_group
from gateway.config.records import Config
from gateway.extension import find_advice

MAX_NAMED: Final = 5
"""Settings that one warning names: the mode of the file mends them all."""


def list_warnings(config: Config) -> Iterator[str]:
    """Yield what may not be meant."""
    yield from config.doubts
    yield from find_advice().list_warnings(config)


def warn_of_no_model(config: Config) -> Iterator[str]:
    if not config.active_models():
        yield (
            "No model is on, so callers get an empty list of models. Set a provider's key to"
            " turn its models on."
        )


def warn_of_literals(path: Path, literals: Sequence[str]) -> str | None:
    """Return a warning if others may read the file and secrets are written out in it."""
    try:
        found = path.stat()
    except OSError:
        return None
    if not literals or not (readers := _find_readers(found)):
        return None
    who, mode = readers
    more = [f"{len(literals) - MAX_NAMED} more"] if len(literals) > MAX_NAMED else []
    named = ", ".join((*literals[:MAX_NAMED], *more))
    return (
        f"{path} can be read by {who}, and has secrets written out: {named}. Type"
        f" `chmod {mode} {shlex.quote(str(path))}`; keys and addresses can also be env:NAME or"
        " file:PATH."
    )


def _find_readers(found: os.stat_result) -> tuple[str, str] | None:
    """Return who else may read a file, and the mode that prevents it.

    The group counts only if this user owns the file: a service may read another user's file by its
    group.
    """
    if found.st_mode & stat.S_IROTH:
        return "everybody on this machine", "o="
    if found.st_mode & stat.S_IRGRP and found.st_uid == os.geteuid() != 0:
        return f"the group {name_group(found.st_gid)}", "go="
    return None
