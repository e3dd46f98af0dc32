"""Functions of the configuration as functions of plain values, for `examples.txt`."""

from __future__ import annotations

import tempfile
from pathlib import Path

from gateway.config.load import load_config, load_table


def read_file(content: bytes) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gateway.toml")
        path.write_bytes(content)
        load_config(path, {})


def find_database(toml: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "gateway.toml")
        path.write_text(toml)
        found = load_table(path, {}, "storage").storage.path
        assert found.parent == path.parent
        return found.name
