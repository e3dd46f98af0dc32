"""A database, and ledgers that do not wait, for the tests of any of its modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.ledger.serving import writer
from tests.ledger.kit import Place, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ledgers look for changes, and try again after failures, ten times as often."""
    for name in ("POLL_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(writer, name, 0.02)
