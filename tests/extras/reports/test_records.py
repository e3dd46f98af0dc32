"""Records of calls and sums, and how they are shown."""

from __future__ import annotations

from dataclasses import replace

from gateway.base.money import Tokens
from gateway.extras.reports.records import CallView, Usage, sum_usage
from gateway.extras.reports.views import CALL as FIELDS

CALL = CallView(
    "req_1", "alice", 1000, 3500, "m", "demo", "key_1", "laptop", "sk-ru-…a1b2", "posted", "complete", 200,
    True, Tokens(1, 2, 3, output=4), 5, False, 6,
)  # fmt: skip


def test_a_call_is_shown_with_its_tokens_and_times() -> None:
    shown = FIELDS.describe(CALL)
    assert (shown["key"], shown["total_ms"], shown["first_byte_ms"]) == ("key_1", 2500, 6)
    assert (shown["input_tokens"], shown["output_tokens"], shown["cost_nano"]) == (1, 4, 5)
    assert (shown["account"], shown["outcome_label"]) == ("alice", "done")
    pending = FIELDS.describe(replace(CALL, ended_ms=None, state="pending", status=None))
    assert (pending["ended"], pending["total_ms"], pending["status"]) == (None, None, None)


def test_a_call_lasts_from_its_begin_to_its_end() -> None:
    call = CallView(
        "req_1", "a", 100, None, "m", "p", "k", "", "", "pending", "pending", None, False,
        Tokens(), 0, False, None,
    )  # fmt: skip
    assert call.total_ms is None
    assert replace(call, ended_ms=130).total_ms == 30
    assert replace(call, ended_ms=90).total_ms == 0


def test_sums_are_field_by_field_and_0_of_nothing() -> None:
    assert sum_usage([]) == Usage()
    total = sum_usage([Usage(1, 2, 3, 4, 5, 6), Usage(10, 20, 30, 40, 50, 60)])
    assert total == Usage(11, 22, 33, 44, 55, 66)
    assert total.tokens == Tokens(22, 33, 44, 55)
