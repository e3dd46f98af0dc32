"""Warnings of values that may not be meant: `warned.txt`. `refused.txt` has mistakes in gateway.toml."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.config.load import list_warnings, load_config
from gateway.config.reader import ConfigError
from tests.config.test_values import check_said, read_texts
from tests.support.rows import told_together
from tests.support.settings import load


def test_values_are_warned_of_as_it_is_written(tmp_path: Path) -> None:
    with told_together() as row:
        for toml, told in read_texts(Path(__file__).with_name("warned.txt")):
            with row(toml):
                said = list(list_warnings(load(tmp_path, f"\ufeff{toml}")))
                check_said(said or ["nothing"], told)


def test_a_file_in_utf_16_is_told_so(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_bytes("[server]".encode("utf-16"))
    with pytest.raises(ConfigError, match="must be UTF-8 text; this is UTF-16"):
        load_config(path, {})
