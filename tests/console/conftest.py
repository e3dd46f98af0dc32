"""Hash the passwords of the console's tests at little cost; test_password_hashing.py has the real one."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def password_cost(cheap_passwords: None) -> None:
    """Override this where the real cost is wanted."""
