"""The ledgers of the tests of what is counted beside them."""

from __future__ import annotations

from tests.ledger.conftest import quick_polls

__all__ = ["quick_polls"]
