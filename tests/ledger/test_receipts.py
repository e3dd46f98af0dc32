"""The words for how a request ended, which the API, the console and the command line share."""

from __future__ import annotations

from typing import get_args

from gateway.ledger.call_records import ENDINGS, Correction, Outcome, Receipt, describe_receipt
from gateway.money import Price, Tokens
from gateway.prices import AppliedPrice


def test_every_outcome_has_words_and_someone_who_ended_it() -> None:
    assert set(ENDINGS) == set(get_args(Outcome))
    assert [outcome for outcome, ending in ENDINGS.items() if ending.by is None] == ["pending"]
    assert {ending.by for ending in ENDINGS.values()} == {"upstream", "caller", "gateway", None}
    for ending in ENDINGS.values():
        assert ending.sentence[0].isupper()
        assert ending.sentence.endswith(".")
    assert len({ending.label for ending in ENDINGS.values()}) == len(ENDINGS)


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
