"""Tests that are left out while an extra is missing that they look through."""

from __future__ import annotations

from gateway.extension import find_extras

collect_ignore = [] if "alerts" in find_extras() else ["test_told.py"]
