"""Ledgers of each implementation."""

from __future__ import annotations

from tests.ledger.conftest import quick_polls
from tests.ledger.contract.conftest import place, pytest_generate_tests

__all__ = ["place", "pytest_generate_tests", "quick_polls"]
