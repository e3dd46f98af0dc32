"""Ledgers that do not wait, for the tests of any of its modules."""

from __future__ import annotations

import pytest

from gateway.ledger.serving import writer


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ledgers look for changes, and try again after failures, ten times as often."""
    for name in ("POLL_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(writer, name, 0.02)
