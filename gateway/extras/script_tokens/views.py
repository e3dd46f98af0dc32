"""The fields of tokens of scripts, as `admin.fields` uses them."""

from __future__ import annotations

from typing import Final

from gateway.admin.fields import Fields
from gateway.admin.views import describe_status
from gateway.base.times import unix_ms
from gateway.extras.script_tokens.records import TokenView


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
