"""The settings of files that are uploaded, in the table [server] of gateway.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gateway.config import scalars as read
from gateway.config.reader import Setting


@dataclass(frozen=True, slots=True)
class Server:
    max_uploads_mb: Annotated[int, Setting(read.integer(1, 1_000_000), 1024)]
