"""Passwords as in the console's tests in a browser."""

from __future__ import annotations

from tests.extras.console.browser.conftest import password_cost

__all__ = ["password_cost"]
