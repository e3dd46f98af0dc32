"""Passwords are hashed at little cost, but where the real one is tested; books in each database."""

from __future__ import annotations

import pytest

from gateway.extras.signins import passwords
from tests.extras.signins.visits import LOG2_N, P
from tests.ledger.sql.conftest import books, clock, place  # noqa: F401 - fixtures


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash as `console.session.STORED` is hashed."""
    monkeypatch.setattr(passwords, "LOG2_N", LOG2_N)
    monkeypatch.setattr(passwords, "P", P)


@pytest.fixture(autouse=True)
def password_cost(cheap_passwords: None) -> None:
    """Override this where the real cost is wanted."""
