"""The terms of a key, and the one status that it has."""

from __future__ import annotations

from gateway.ledger.key_records import KeyTerms, KeyView
from tests.support.rows import each_row

NOW_MS = 1000


@each_row(
    ("terms", "revoked_ms", "status"),
    [
        (KeyTerms(), None, "active"),
        (KeyTerms(expires_ms=NOW_MS + 1, cap_nano=8), None, "active"),
        (KeyTerms(expires_ms=NOW_MS), None, "expired"),
        (KeyTerms(cap_nano=7), None, "cap_spent"),
        (KeyTerms(expires_ms=NOW_MS, cap_nano=7), None, "expired"),
        (KeyTerms(expires_ms=NOW_MS, cap_nano=7), 1, "revoked"),
    ],
)
def test_the_reason_that_cannot_be_undone_is_told_first(
    terms: KeyTerms, revoked_ms: int | None, status: str
) -> None:
    key = KeyView("k", "a", "sk-…", terms, 7, 0, revoked_ms, None, None)
    assert key.status(NOW_MS) == status


def test_a_list_of_models_allows_no_others() -> None:
    assert KeyTerms().allows("m")
    assert KeyTerms(models=("m",)).allows("m")
    assert not KeyTerms(models=("m",)).allows("n")
    assert not KeyTerms(models=()).allows("m")
