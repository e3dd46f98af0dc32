"""JSON objects that the console alone shows."""

from __future__ import annotations

from gateway.console.pages import describe_listed_key
from gateway.ledger.key_records import KeyTerms, KeyView

KEY = KeyView("key_1", "alice", "sk-ru-…a1b2", KeyTerms(expires_ms=1000), 7, 0, None, None, None)


def test_a_listed_key_has_its_status_and_its_spending_of_30_days() -> None:
    shown = describe_listed_key(KEY, 999, {"key_1": 5_000_000_000})
    assert (shown["status"], shown["spent_30d"], shown["spent_30d_nano"]) == (
        "active", "5.00", 5_000_000_000,
    )  # fmt: skip
    unused = describe_listed_key(KEY, 1000, {"other": 5})
    assert (unused["status"], unused["spent_30d_nano"]) == ("expired", 0)
