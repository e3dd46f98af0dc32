"""JSON objects that the console alone shows."""

from __future__ import annotations

from dataclasses import replace

from gateway.console.views import describe_call, describe_listed_key
from gateway.ledger import CallView, KeyTerms, KeyView
from gateway.money import Tokens

KEY = KeyView("key_1", "alice", "sk-ru-…a1b2", KeyTerms(expires_ms=1000), 7, 0, None, None, None)
CALL = CallView(
    "req_1", 1000, 3500, "m", "demo", "key_1", "laptop", "sk-ru-…a1b2", "posted", "complete", 200,
    True, Tokens(1, 2, 3, output=4), 5, False, 6,
)  # fmt: skip


def test_a_listed_key_has_its_status_and_its_spending_of_30_days() -> None:
    shown = describe_listed_key(KEY, 999, {"key_1": 5_000_000_000})
    assert (shown["status"], shown["spent_30d"], shown["spent_30d_nano"]) == (
        "active", "5.00", 5_000_000_000,
    )  # fmt: skip
    unused = describe_listed_key(KEY, 1000, {"other": 5})
    assert (unused["status"], unused["spent_30d_nano"]) == ("expired", 0)


def test_a_call_is_shown_with_its_tokens_and_times() -> None:
    shown = describe_call(CALL)
    assert (shown["key"], shown["total_ms"], shown["first_byte_ms"]) == ("key_1", 2500, 6)
    assert (shown["input_tokens"], shown["output_tokens"], shown["cost_nano"]) == (1, 4, 5)
    pending = describe_call(replace(CALL, ended_ms=None, state="pending", status=None))
    assert (pending["ended"], pending["total_ms"], pending["status"]) == (None, None, None)
