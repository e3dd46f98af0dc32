"""The console's browser and gateway."""

from __future__ import annotations

from tests.extras.console.browser.conftest import browser
from tests.extras.console.conftest import console

__all__ = ["browser", "console"]
