"""The browser of the console's tests."""

from __future__ import annotations

from tests.extras.console.browser.conftest import browser, password_cost

__all__ = ["browser", "password_cost"]
