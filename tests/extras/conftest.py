"""Tests of one extra may use another that was taken away: then they are left out. SDKs are clients of many."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from gateway.extension import find_extras
from tests.api.conftest import clients

__all__ = ["clients"]

EXTRA: Final = re.compile(r"^from (?:gateway|tests)\.extras\.(\w+)", re.MULTILINE)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    if collection_path.suffix != ".py":
        return None
    used = set(EXTRA.findall(collection_path.read_text(encoding="utf-8")))
    return True if used - find_extras().keys() else None
