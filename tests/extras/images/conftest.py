"""Fixtures for the tests of a service."""

from __future__ import annotations

from tests.api.conftest import clients

__all__ = ["clients"]
