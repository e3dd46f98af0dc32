"""A folder for commands."""

from __future__ import annotations

from tests.cli.conftest import cli

__all__ = ["cli"]
