"""Functions of tokens as functions of plain values, for `examples.txt`."""

from __future__ import annotations

from gateway.extras.script_tokens.records import TokenTerms, TokenView, describe_token_state


def describe_token(expires_ms: int | None, revoked_ms: int | None) -> str:
    terms = TokenTerms("shop", "read", expires_ms)
    return describe_token_state(TokenView("tok_1", terms, "a1b2", "cli", 0, revoked_ms, None))
