"""Ledgers of each implementation, and a folder for commands."""

from __future__ import annotations

from tests.cli.conftest import cli
from tests.ledger.conftest import quick_polls
from tests.ledger.contract.conftest import place, pytest_generate_tests

__all__ = ["cli", "place", "pytest_generate_tests", "quick_polls"]
