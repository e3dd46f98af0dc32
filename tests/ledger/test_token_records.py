"""The status of a token, and what it is called."""

from __future__ import annotations

from gateway.ledger.signin_records import TokenTerms, TokenView
from tests.support.rows import each_row

NOW_MS = 1000


@each_row(
    ("expires_ms", "revoked_ms", "status"),
    [
        (None, None, "active"),
        (NOW_MS + 1, None, "active"),
        (NOW_MS, None, "expired"),
        (NOW_MS, 5, "revoked"),
        (None, 5, "revoked"),
    ],
)
def test_a_revocation_counts_before_what_time_does(
    expires_ms: int | None, revoked_ms: int | None, status: str
) -> None:
    terms = TokenTerms("shop", "accounts", expires_ms)
    token = TokenView("tok_1", terms, "a1b2", "cli", 0, revoked_ms, None)
    assert token.status(NOW_MS) == status
    assert (token.display, token.actor) == ("gwt_…a1b2", "token shop")
