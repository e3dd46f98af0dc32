"""Hash the passwords of the console's tests at little cost; test_password_hashing.py has the real one."""

from __future__ import annotations

import pytest

from gateway.admin import passwords
from tests.console.session import LOG2_N, P


@pytest.fixture
def cheap_passwords(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash as `session.STORED` is hashed."""
    monkeypatch.setattr(passwords, "LOG2_N", LOG2_N)
    monkeypatch.setattr(passwords, "P", P)


@pytest.fixture(autouse=True)
def password_cost(cheap_passwords: None) -> None:
    """Override this where the real cost is wanted."""
