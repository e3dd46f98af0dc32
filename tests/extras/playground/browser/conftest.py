"""The browser of the console's tests."""

from __future__ import annotations

from tests.extras.console.browser.conftest import browser, console, password_cost, site

__all__ = ["browser", "console", "password_cost", "site"]
