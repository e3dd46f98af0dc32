"""The console's gateway."""

from __future__ import annotations

from tests.extras.console.conftest import console

__all__ = ["console"]
