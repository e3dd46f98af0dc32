"""Secrets that are written out in gateway.toml, and the warning if others may read them there."""

from __future__ import annotations

import grp
import os
import shlex
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from gateway.config.reader import looks_secret, quote_key
from gateway.config.secrets import COMMAND, SECRET_HEADER, is_literal, split_command
from gateway.extension import find_tables

MAX_NAMED: Final = 5
"""Settings that one warning names: the mode of the file mends them all."""


def find_literals(raw: Mapping[str, Any]) -> list[str]:
    """Return the name of each setting whose secret is written out in the file, which was checked."""
    shown: list[tuple[str, object]] = [
        ("[storage] url", _has_password(raw.get("storage", {}).get("url")))
    ]
    for name, provider in raw.get("providers", {}).items():
        place, keys = f"[providers.{quote_key(name)}]", provider.get("api_key")
        headers = provider.get("headers", {}).items()
        shown += [
            (f"{place} api_key", any(map(_shows_key, keys if isinstance(keys, list) else [keys]))),
            (f"{place} proxy", _has_password(provider.get("proxy"))),
            (
                f"{place} headers",
                any(SECRET_HEADER.search(n) or looks_secret(v) for n, v in headers),
            ),
        ]
    found = [name for name, is_shown in shown if is_shown]
    for name, table in find_tables().items():
        written: Mapping[str, Any] = raw
        for key in (table.in_table or name).split("."):
            written = written.get(key, {})
        found += [f"[{name}] {key}" for key in table.find_literals(written)]
    return found


def _has_password(value: object) -> bool:
    """Return whether an address is written out, with a password in it."""
    if not is_literal(value):
        return False
    parts = urlsplit(value)
    return parts.password is not None or "password=" in parts.query


def _shows_key(place: str | None) -> bool:
    """Return whether a key is written out, or an argument of a command looks like one."""
    if place is not None and place.startswith(COMMAND):
        return any(map(looks_secret, split_command(place)))
    return is_literal(place)


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
        return f"the group {_name_group(found.st_gid)}", "go="
    return None


def _name_group(gid: int) -> str:
    """Return a group's name, or the number of one without a name."""
    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return f"#{gid}"
