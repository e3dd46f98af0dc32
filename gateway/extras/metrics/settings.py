"""The table [metrics] of gateway.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from gateway.config import values
from gateway.config.reader import Setting


@dataclass(frozen=True, slots=True)
class Metrics:
    listen: Annotated[tuple[str, int] | None, Setting(values.address, None)]
    """Host and port; None means off."""
