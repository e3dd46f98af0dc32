"""An installation, and a reader of its unit files."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from gateway.config.load import load_config
from gateway.extras.units.texts import Installation
from tests.support.settings import SHIPPED

SERVER: Final = load_config(SHIPPED, {}).server
PLACE: Final = Installation(
    python=Path("/opt/gateway/.venv/bin/python"),
    environment=Path("/opt/gateway/.venv"),
    package=Path("/opt/gateway/gateway"),
    config=Path("/etc/gateway/gateway.toml"),
    folder=Path("/opt/gateway"),
    database=Path("/srv/books/gateway.db"),
    owner="keeper",
)
STATE: Final = Path("/var/lib/gateway/gateway.db")


def read_unit(text: str) -> dict[str, list[str]]:
    """Read all settings with their values, in order."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if line and line[0] not in "#[":
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found
