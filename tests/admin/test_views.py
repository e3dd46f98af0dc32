"""Records as JSON: units by their suffix, amounts twice, and never a secret."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

from gateway.admin import views
from gateway.admin.fields import describe
from gateway.ledger.call_records import CallView, Usage
from gateway.ledger.key_records import KeyTerms, KeyView
from gateway.money import Tokens

CALL = CallView(
    "req_1", "alice", 1000, 3500, "m", "demo", "key_1", "laptop", "sk-ru-…a1b2", "posted", "complete", 200,
    True, Tokens(1, 2, 3, output=4), 5, False, 6,
)  # fmt: skip


def test_the_suffix_of_a_name_tells_its_unit() -> None:
    record = SimpleNamespace(
        id="x", cap_nano=1_500_000_000, open_nano=None, ended_ms=0, left_ms=None
    )
    assert describe(record, "id", "cap_nano", "open_nano", "ended_ms", "left_ms") == {
        "id": "x",
        "cap": "1.50",
        "cap_nano": 1_500_000_000,
        "open": None,
        "open_nano": None,
        "ended": "1970-01-01T00:00:00.000Z",
        "left": None,
    }


def test_a_key_is_shown_with_its_terms_and_its_models_in_order() -> None:
    terms = KeyTerms(("b", "a"), 1, 2, 3, "laptop", 4, 5)
    shown = views.KEY.describe(KeyView("key_1", "alice", "sk-ru-…a1b2", terms, 6, 7, None, 8, None))
    assert list(shown) == [
        "id", "account", "name", "display", "models", "requests_per_minute", "tokens_per_minute",
        "concurrency", "cap", "cap_nano", "spent", "spent_nano", "created", "expires", "revoked",
        "last_used", "replaced_by", "budget",
    ]  # fmt: skip
    assert shown["models"] == ["a", "b"]
    assert (shown["requests_per_minute"], shown["cap_nano"], shown["spent_nano"]) == (1, 4, 6)
    anything = KeyView("key_1", "alice", "sk-ru-…a1b2", KeyTerms(), 0, 0, None, None, None)
    assert views.KEY.describe(anything)["models"] is None


def test_usage_is_counted_and_priced() -> None:
    assert views.USAGE.describe(Usage(2, 1, 3, 4, 5, 6)) == {
        "requests": 2,
        "input_tokens": 1,
        "cached_input_tokens": 3,
        "cache_write_tokens": 4,
        "output_tokens": 5,
        "cost": "0.000000006",
        "cost_nano": 6,
    }


def test_a_call_is_shown_with_its_tokens_and_times() -> None:
    shown = views.CALL.describe(CALL)
    assert (shown["key"], shown["total_ms"], shown["first_byte_ms"]) == ("key_1", 2500, 6)
    assert (shown["input_tokens"], shown["output_tokens"], shown["cost_nano"]) == (1, 4, 5)
    assert (shown["account"], shown["outcome_label"]) == ("alice", "done")
    pending = views.CALL.describe(replace(CALL, ended_ms=None, state="pending", status=None))
    assert (pending["ended"], pending["total_ms"], pending["status"]) == (None, None, None)
