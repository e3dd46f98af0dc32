"""Error replies of the console's API: their shape, and sentences for people."""

from __future__ import annotations

from gateway.console.refusals import (
    ConsoleError,
    explain,
    invalid_field,
    not_found,
    not_signed_in,
    phrase,
    unavailable,
)
from tests.support.rows import each_row


def test_an_error_has_the_members_it_knows() -> None:
    assert not_found("key").describe("req_1") == {
        "error": {
            "message": "There is no such key here.",
            "code": "not_found",
            "request_id": "req_1",
        }
    }
    error = ConsoleError(429, "too_many_tries", "Wait.", "code", 7, {"left": 0})
    assert error.describe("req_1") == {
        "error": {
            "message": "Wait.",
            "code": "too_many_tries",
            "field": "code",
            "retry_after_seconds": 7,
            "left": 0,
            "request_id": "req_1",
        }
    }


@each_row(
    ("error", "status", "code"),
    [
        (invalid_field("name", "Too long."), 400, "invalid_field"),
        (not_signed_in(), 401, "not_signed_in"),
        (not_found(), 404, "not_found"),
        (explain("req_1", RuntimeError()), 500, "internal_error"),
        (unavailable("Try again."), 503, "unavailable"),
    ],
)
def test_each_refusal_is_a_sentence_with_a_status(
    error: ConsoleError, status: int, code: str
) -> None:
    assert (error.status, error.code) == (status, code)
    assert error.message.endswith(".")
    assert error.field == ("name" if status == 400 else None)


@each_row(
    ("text", "sentence"),
    [
        ("the key is dead", "The key is dead."),
        ("why?", "Why?"),
        ("Enough!", "Enough!"),
        ("a. b.", "A. b."),
    ],
)
def test_words_of_a_verb_become_a_sentence(text: str, sentence: str) -> None:
    assert phrase(text) == sentence
