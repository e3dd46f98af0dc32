"""The version of the installed package."""

from __future__ import annotations

from typing import Final

UNKNOWN: Final = "unknown"


def find_version() -> str:
    """Return the installed version; `unknown` if the source is run without being installed."""
    from importlib import metadata  # 0.8 MiB, for those who ask

    try:
        return metadata.version("gateway")
    except metadata.PackageNotFoundError:
        return UNKNOWN
