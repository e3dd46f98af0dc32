"""Records of calls."""

from __future__ import annotations

from dataclasses import replace

from gateway.ledger.call_records import CallView
from gateway.money import Tokens


def test_a_call_lasts_from_its_begin_to_its_end() -> None:
    call = CallView(
        "req_1", "a", 100, None, "m", "p", "k", "", "", "pending", "pending", None, False,
        Tokens(), 0, False, None,
    )  # fmt: skip
    assert call.total_ms is None
    assert replace(call, ended_ms=130).total_ms == 30
    assert replace(call, ended_ms=90).total_ms == 0
