"""The records of the ledger: what they say of themselves, and in which words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import get_args

from hypothesis import given
from hypothesis import strategies as st

from gateway.base.money import Price, Tokens
from gateway.base.prices import AppliedPrice
from gateway.base.times import DAY_MS, to_unix_ms
from gateway.ledger.base import Account, Key, Line
from gateway.ledger.budget_records import Allowance, Budget, Period, Spending, find_span
from gateway.ledger.call_records import (
    OUTCOME_WORDS,
    Correction,
    Outcome,
    Receipt,
    describe_receipt,
)
from gateway.ledger.key_records import KeyTerms
from gateway.ledger.records import Conflict, NotFound, Refused, StoredSecret
from tests.ledger.contract.kit import NOW_MS


def test_a_refusal_has_one_word_for_programs() -> None:
    """Its own code, else that a field is wrong, else the word of its kind."""
    assert Refused("no").code == "refused"
    assert NotFound("no").code == "not_found"
    assert Conflict("no").code == "conflict"
    assert Conflict("no", field="name").code == "invalid_field"
    assert Conflict("no", code="name_taken", field="name").code == "name_taken"


def test_digests_are_not_shown() -> None:
    assert "digest" not in repr(StoredSecret("id", b"digest", "last"))


def test_what_is_held_is_not_available() -> None:
    account = Account(1, "a", suspended=False, balance_nano=100, held_nano=130)
    assert account.available_nano == -30


def test_a_key_lives_until_it_is_revoked_or_expires() -> None:
    account = Account(1, "a", suspended=False, balance_nano=0)
    terms = KeyTerms(expires_ms=NOW_MS)
    assert Key("k", account, terms, Line("k")).is_live(NOW_MS - 1)
    assert not Key("k", account, terms, Line("k")).is_live(NOW_MS)
    assert not Key("k", account, KeyTerms(), Line("k"), revoked_ms=NOW_MS + 1).is_live(NOW_MS)


def make_budget(name: str | None = "team", spent_nano: int = 2 * 10**9) -> Budget:
    spending = Spending(find_span("month", NOW_MS), spent_nano)
    return Budget(1, 1, name, Allowance(10**9, "month"), spending)


def test_a_sum_counts_and_is_shown_in_its_own_period_alone() -> None:
    budget, later_ms = make_budget(), NOW_MS + 31 * DAY_MS
    assert budget.find_spent_nano(NOW_MS) == 2 * 10**9
    assert budget.find_spent_nano(later_ms) == 0
    assert budget.find_spent_nano(NOW_MS - 31 * DAY_MS) == 0, "the clock was set back"
    shown, later = budget.show(NOW_MS), budget.show(later_ms)
    assert (shown.spent_nano, shown.remaining_nano) == (2 * 10**9, 0)
    assert (later.spent_nano, later.remaining_nano) == (0, 10**9)
    assert later.resets_ms > shown.resets_ms
    budget.allowance = Allowance(5, "day")  # the books changed it, and the new sum is not read yet
    assert budget.show(NOW_MS).spent_nano == 0


LATEST_MS = 253_402_300_799_999 - 62 * DAY_MS
"""Two months before the year 10000, where Python's dates end."""


def at(text: str) -> int:
    return to_unix_ms(datetime.fromisoformat(text).replace(tzinfo=UTC))


@given(period=st.sampled_from(get_args(Period)), at_ms=st.integers(0, LATEST_MS))
def test_periods_follow_each_other_without_a_gap(period: Period, at_ms: int) -> None:
    span = find_span(period, at_ms)
    assert span.contains(at_ms)
    assert span.starts_ms == span.first_day * DAY_MS
    assert find_span(period, span.ends_ms).starts_ms == span.ends_ms
    assert find_span(period, span.ends_ms - 1) == span
    assert not span.contains(span.ends_ms)
    first = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(days=span.first_day)
    assert {"day": True, "week": first.weekday() == 0, "month": first.day == 1}[period]


def test_every_outcome_has_words_and_someone_who_ended_it() -> None:
    assert set(OUTCOME_WORDS) == set(get_args(Outcome))
    assert [outcome for outcome, ending in OUTCOME_WORDS.items() if ending.by is None] == [
        "pending"
    ]
    assert {ending.by for ending in OUTCOME_WORDS.values()} == {
        "upstream",
        "caller",
        "gateway",
        None,
    }
    for ending in OUTCOME_WORDS.values():
        assert ending.sentence[0].isupper()
        assert ending.sentence.endswith(".")
    assert len({ending.label for ending in OUTCOME_WORDS.values()}) == len(OUTCOME_WORDS)


def test_a_receipt_says_who_ended_it_and_what_was_used() -> None:
    receipt = Receipt(
        request_id="req_1",
        key_id="key_1",
        state="posted",
        outcome="caller_left",
        model="m",
        provider="p",
        stream=True,
        price=AppliedPrice(Price(1, 2, 3, 4)),
        hold_nano=5,
        started_ms=0,
        tokens=Tokens(98, 20, 3, 50, 2),
        corrections=(Correction(7, "late", 1),),
    )
    told = describe_receipt(receipt, "EUR")
    assert (told["ended_by"], told["explanation"]) == ("caller", "The caller left before the end.")
    assert told["tokens"] == "input 123, of these cached 20, written to the cache 5; output 50"
    assert told["input_tokens"] == 98
    assert (told["cache_write_tokens"], told["cache_write_1h_tokens"]) == (3, 2)
    assert told["corrections"] == [
        {
            "amount": "0.000000007",
            "amount_nano": 7,
            "note": "late",
            "created": "1970-01-01T00:00:00.001Z",
        }
    ]
