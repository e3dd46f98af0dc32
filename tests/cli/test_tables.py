"""The cells that say in what state something is."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.cli.tables import state_of_key, state_of_token
from gateway.ledger import KeyTerms, KeyView, TokenTerms, TokenView

YEAR_9999_MS = 253_402_300_799_000
KEY = KeyView("key_1", "a", "sk-ru-…a1b2", KeyTerms(), 5, 0, None, None, None)


@pytest.mark.parametrize(
    ("key", "state"),
    [
        (KEY, "active"),
        (replace(KEY, terms=KeyTerms(cap_nano=6)), "active"),
        (replace(KEY, terms=KeyTerms(cap_nano=5)), "cap spent"),
        (replace(KEY, terms=KeyTerms(expires_ms=0)), "expired 1970-01-01 00:00"),
        (replace(KEY, terms=KeyTerms(expires_ms=YEAR_9999_MS)), "until 9999-12-31 23:59"),
        (replace(KEY, terms=KeyTerms(expires_ms=0), revoked_ms=60_000), "revoked 1970-01-01 00:01"),
    ],
)
def test_the_state_of_a_key_is_its_status_and_when_it_began_or_ends(
    key: KeyView, state: str
) -> None:
    assert state_of_key(key) == state


@pytest.mark.parametrize(
    ("expires_ms", "revoked_ms", "state"),
    [
        (None, None, "active"),
        (YEAR_9999_MS, None, "until 9999-12-31 23:59"),
        (0, None, "expired 1970-01-01 00:00"),
        (0, 60_000, "revoked 1970-01-01 00:01"),
    ],
)
def test_the_state_of_a_token(expires_ms: int | None, revoked_ms: int | None, state: str) -> None:
    terms = TokenTerms("shop", "read", expires_ms)
    assert state_of_token(TokenView("tok_1", terms, "a1b2", "cli", 0, revoked_ms, None)) == state
