"""Where a ledger is: in a file, or in a PostgreSQL database."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit


@dataclass(frozen=True, slots=True)
class DatabaseUrl:
    """A database as `postgresql://user:password@host/name`. Shown without its password."""

    value: str = field(repr=False)

    def __str__(self) -> str:
        parts = urlsplit(self.value)
        user = f"{parts.username}@" if parts.username else ""
        port = f":{parts.port}" if parts.port else ""
        return f"{parts.scheme}://{user}{parts.hostname or ''}{port}{parts.path}"


Location = Path | DatabaseUrl
