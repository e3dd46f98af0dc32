"""A database, and ledgers that do not wait, for the tests of any of its modules."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.ledger.serving import writer
from tests.ledger.faults import Faults
from tests.ledger.kit import Place, make_place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return make_place(tmp_path)


@pytest.fixture
def faults() -> Faults:
    return Faults()


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ledgers look for changes, and try again after failures, ten times as often.

    They never end the process: on a busy machine a commit may seem to hang.
    """
    for name in ("POLL_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(writer, name, 0.02)
    monkeypatch.setattr("os._exit", lambda _code: None)
