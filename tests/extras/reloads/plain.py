"""Differences of files as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gateway.extras.reloads.reloader import describe_changes, keep_fixed
from tests.support.settings import MODEL, OPENAI, load

BASE = OPENAI + MODEL


def tell_changes(begin: str, old: str, new: str, end: str) -> str:
    """Tell what changes in a file: another beginning, another end, a word for each that is old."""
    with tempfile.TemporaryDirectory() as folder:
        after = begin + (BASE.replace(old, new) if old else BASE) + end
        return describe_changes(load(Path(folder), BASE), load(Path(folder), after))


def keep(toml: str) -> list[str]:
    """Name what stays as it is until a restart."""
    with tempfile.TemporaryDirectory() as folder:
        running = load(Path(folder), BASE)
        kept, keys = keep_fixed(running, load(Path(folder), f"{toml}\n{BASE}"))
        assert kept == running
        return [*keys]
