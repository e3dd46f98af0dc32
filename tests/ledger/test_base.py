"""The records of the serving ledger's contract: what is available, and what is charged."""

from __future__ import annotations

from gateway.ledger.base import Account, Key, Line
from gateway.ledger.call_records import Outcome
from gateway.ledger.key_records import KeyTerms
from tests.ledger.contract.kit import NOW_MS, settlement
from tests.support.rows import each_row


def test_what_is_held_is_not_available() -> None:
    account = Account(1, "a", suspended=False, balance_nano=100, held_nano=130)
    assert account.available_nano == -30


def test_a_key_lives_until_it_is_revoked_or_expires() -> None:
    account = Account(1, "a", suspended=False, balance_nano=0)
    terms = KeyTerms(expires_ms=NOW_MS)
    assert Key("k", account, terms, Line("k")).is_live(NOW_MS - 1)
    assert not Key("k", account, terms, Line("k")).is_live(NOW_MS)
    assert not Key("k", account, KeyTerms(), Line("k"), revoked_ms=NOW_MS + 1).is_live(NOW_MS)


@each_row(
    ("outcome", "cost_nano", "is_posted"),
    [
        ("complete", 0, True),
        ("complete", 1, True),
        ("caller_left", 1, True),
        ("caller_left", 0, False),
        ("upstream_error", 0, False),
    ],
)
def test_a_cost_or_a_complete_reply_is_a_charge(
    outcome: Outcome, cost_nano: int, is_posted: bool
) -> None:
    assert settlement(cost_nano, outcome=outcome).is_posted == is_posted
