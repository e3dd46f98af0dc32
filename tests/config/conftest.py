"""Addresses of databases, which an extra reads, are read by a stand-in."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.stand_in import stand_in


@pytest.fixture(autouse=True)
def databases(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(monkeypatch, tmp_path / "behind.db")
