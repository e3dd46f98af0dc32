"""Records of the routes that serve, as the reference describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gateway.dialects.wire.base import Caller

Access = Literal["open", "key", "session", "operator"]
"""The callers of a route: everybody, holders of an account's key, people who are signed in, operators."""


@dataclass(frozen=True, slots=True)
class Route:
    """A method and a path, and who may call it."""

    method: str
    path: str
    access: Access
    callers: tuple[Caller, ...] = ()
    """The dialects that its requests may have."""
    tokens: frozenset[str] = frozenset()
    """The roles of scripts' tokens that may call it."""
    idempotent: bool = False
    """It takes an Idempotency-Key."""

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"
