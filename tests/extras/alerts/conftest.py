"""Tests that are left out without the console, through which they look."""

from __future__ import annotations

from gateway.extension import find_extras

collect_ignore = [] if "console" in find_extras() else ["test_verbs.py", "test_watch.py"]
