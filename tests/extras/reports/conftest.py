"""The books of the tests of the ledger's statements."""

from __future__ import annotations

from tests.ledger.conftest import quick_polls
from tests.ledger.sql.conftest import books, clock, moved, place

__all__ = ["books", "clock", "moved", "place", "quick_polls"]
