"""The table [responses] of gateway.toml."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

from gateway.config import scalars as read
from gateway.config.reader import Setting

TABLE: Final = "responses"
_MAX_MINUTES: Final = 30 * 24 * 60
"""The longest time in minutes: 30 days, for which OpenAI keeps responses."""
_MAX_MB: Final = 65_536
"""The most MiB: more would be a typing error."""
ACCOUNT_PART: Final = 4
"""The memory is divided by this for the share of one account, so that it cannot displace all others."""


@dataclass(frozen=True, slots=True)
class Responses:
    """How long, and in how much memory, responses are kept for callers that do not send `store: false`."""

    keep_minutes: Annotated[int, Setting(read.integer(0, _MAX_MINUTES), 60)]
    keep_mb: Annotated[int, Setting(read.integer(0, _MAX_MB), 32)]

    @property
    def is_on(self) -> bool:
        return self.keep_minutes > 0 and self.keep_mb > 0

    @property
    def account_mb(self) -> float:
        return self.keep_mb / ACCOUNT_PART
