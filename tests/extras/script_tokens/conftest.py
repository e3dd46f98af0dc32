"""The books of an account and an operator."""

from __future__ import annotations

from tests.admin.conftest import find_path, make_clock, open_accounts

__all__ = ["find_path", "make_clock", "open_accounts"]
