"""The status of a code, which shows no more of its secret than the end."""

from __future__ import annotations

from gateway.ledger.records import CodeView
from tests.support.rows import each_row

NOW_MS = 1000


@each_row(
    ("expires_ms", "voided_ms", "redeemed_ms", "status"),
    [
        (None, None, None, "open"),
        (NOW_MS + 1, None, None, "open"),
        (NOW_MS, None, None, "expired"),
        (NOW_MS, 5, None, "void"),
        (NOW_MS, None, 5, "redeemed"),
    ],
)
def test_what_was_done_counts_before_what_time_does(
    expires_ms: int | None, voided_ms: int | None, redeemed_ms: int | None, status: str
) -> None:
    code = CodeView("c", "b", "AB12", 7, "", "cli", 0, expires_ms, voided_ms, redeemed_ms, None)
    assert code.status(NOW_MS) == status
    assert code.display == "····-AB12"
