"""The version of a file's schema, and those that are upgraded to it. `--version` imports no more than this."""

from __future__ import annotations

from typing import Final

VERSION: Final = 15
"""The version of `sqlite/schema.sql`, kept as `PRAGMA user_version`."""
UPGRADES: Final = {14: "from_14.sql"}
"""Scripts by the version that they upgrade to the next one. They stay: files from 14 on are upgraded in one step."""
COMMITS: Final = {11: "ccc32dab17", 12: "b78270d790", 13: "4840eb2c5f", 14: "028d8ca14f"}
"""The last commits of versions before there were releases. Each upgrades the version before it, the first one all."""


def refuse_old(version: int) -> str:
    """Say that a version is too old, and which programs take it to one that is upgraded."""
    between = ", ".join(commit for made, commit in COMMITS.items() if made > version)
    return (
        f"schema version {version} is older than this gateway can upgrade ({min(UPGRADES)}); start the"
        f' gateway of each of these commits once, in this order: {between} (see "Upgrade" in deploy.md)'
    )
