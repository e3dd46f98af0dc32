"""The refusals of what exceeds a limit: their words, and when to try again."""

from __future__ import annotations

from gateway.errors import RateLimited
from gateway.ledger.key_records import refuse_concurrency, refuse_requests, refuse_tokens
from tests.support.rows import each_row


@each_row(
    ("refusal", "message", "kind", "seconds"),
    [
        (
            refuse_requests("key", 5, 7.25),
            "This key may make 5 requests per minute. Try again in 7.2 s.",
            "requests",
            7.25,
        ),
        (
            refuse_tokens("account", 100, 250, 30.0),
            (
                "This account may use 100 tokens per minute and this request takes about 250."
                " Try again in 30.0 s."
            ),
            "tokens",
            30.0,
        ),
        (
            refuse_concurrency("key", 3),
            (
                "This key has 3 requests in flight, as many as it may have at once."
                " Wait for one to finish."
            ),
            "requests",
            1.0,
        ),
        (
            refuse_concurrency("account", 4, "its share"),
            "This account has 4 requests in flight, its share. Wait for one to finish.",
            "requests",
            1.0,
        ),
    ],
)
def test_a_refusal_names_the_limit_and_the_wait(
    refusal: RateLimited, message: str, kind: str, seconds: float
) -> None:
    assert (refusal.message, refusal.type) == (message, kind)
    assert (refusal.status, refusal.retry_after_seconds) == (429, seconds)
