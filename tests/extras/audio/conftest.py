"""Fixtures for the tests of speech and transcripts."""

from __future__ import annotations

from tests.api.conftest import clients

__all__ = ["clients"]
