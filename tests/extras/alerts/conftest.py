"""Books with one account `a`, in each of the databases."""

from __future__ import annotations

from tests.ledger.sql.conftest import books, clock, place

__all__ = ["books", "clock", "place"]
