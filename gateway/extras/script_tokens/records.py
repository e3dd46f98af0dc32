"""Records of tokens of scripts."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal

from gateway.admin.fields import Fields
from gateway.admin.views import describe_status
from gateway.base.times import unix_ms
from gateway.ledger.records import SCRIPT_ACTOR

PREFIX: Final = "gwt_"
"""The beginning of each token, for programs that scan for leaked secrets."""

TokenRole = Literal["operator", "accounts", "read"]
TokenStatus = Literal["active", "expired", "revoked"]


@dataclass(frozen=True, slots=True)
class TokenTerms:
    name: str
    role: TokenRole
    expires_ms: int | None = None
    """None means that it never expires."""


@dataclass(frozen=True, slots=True)
class TokenView:
    """A token without its secret."""

    id: str
    terms: TokenTerms
    last4: str
    created_by: str
    created_ms: int
    revoked_ms: int | None
    last_used_ms: int | None
    """The time of its last use, to the minute."""

    @property
    def display(self) -> str:
        """Return a text such as `gwt_…a1b2`, by which people tell tokens apart."""
        return f"{PREFIX}…{self.last4}"

    @property
    def actor(self) -> str:
        """Return its name in events; no account's name can begin like that."""
        return f"{SCRIPT_ACTOR}{self.terms.name}"

    def status(self, now_ms: int) -> TokenStatus:
        if self.revoked_ms is not None:
            return "revoked"
        expires_ms = self.terms.expires_ms
        return "expired" if expires_ms is not None and expires_ms <= now_ms else "active"


@dataclass(frozen=True, slots=True)
class NewToken:
    token: TokenView
    secret: str = field(repr=False)
    """The token itself, which is shown once and stored nowhere."""


def describe_token_state(token: TokenView) -> str:
    status = token.status(unix_ms())
    return describe_status(status, token.terms.expires_ms, revoked=token.revoked_ms)


TOKEN: Final = Fields[TokenView](
    *("id", "terms.name", "terms.role", "display", "status", "created_ms", "created_by"),
    *("terms.expires_ms", "revoked_ms", "last_used_ms"),
    table=(
        *("id", "terms.name", "terms.role"),
        ("TOKEN", "display"),
        ("STATE", describe_token_state),
        "last_used_ms",
        ("BY", "created_by"),
    ),
)
"""A token without its secret."""
