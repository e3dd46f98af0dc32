"""Ledgers in PostgreSQL for the tests of any of its modules; skipped where there is no server."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.ledger.serving import writer
from tests.ledger.databases import Databases
from tests.support.postgres import Cluster


@pytest.fixture(scope="session")
def databases(postgres: Cluster) -> Databases:
    return Databases(postgres)


@pytest.fixture
def ledger_url(databases: Databases) -> Iterator[str]:
    """The URL of a ledger without accounts, which is dropped after the test."""
    with databases.lend() as url:
        yield url


@pytest.fixture
def quick_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let ledgers look for changes, and try again after failures, ten times as often."""
    for name in ("POLL_SECONDS", "RETRY_SECONDS"):
        monkeypatch.setattr(writer, name, 0.02)
