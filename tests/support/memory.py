"""A folder in memory for files: most tests claim nothing about the disk, so none waits for it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Final

_SHARED: Final = Path("/dev/shm")
_ROOM: Final = 2**31
"""The free bytes without which nothing is put there: a container may have next to none."""

MEMORY: Final = _SHARED if _SHARED.is_dir() and shutil.disk_usage(_SHARED).free >= _ROOM else None
