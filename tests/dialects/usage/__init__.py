"""Usage as providers report it: one table of shapes for each dialect, a row for each provider's habit."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gateway.money import Tokens


@dataclass(frozen=True, slots=True)
class Shape:
    """What a provider sends, and what it means."""

    provider: str
    source: str
    """Where the shape was seen: documentation, a recorded reply, an issue."""
    sent: bytes
    """A usage object; of a stream, its events' data, one a line."""
    tokens: Tokens
    tool_calls: Mapping[str, int] = field(default_factory=dict)
    bill_nano: int | None = None
    estimated: bool = False
    """One half at least was not told, or cannot be."""
