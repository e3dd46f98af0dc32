"""Records of calls and sums, and how they are shown."""

from __future__ import annotations

from gateway.base.money import Tokens
from gateway.extras.reports.records import Usage, sum_usage


def test_sums_are_field_by_field_and_0_of_nothing() -> None:
    assert sum_usage([]) == Usage()
    total = sum_usage([Usage(1, 2, 3, 4, 5, 6), Usage(10, 20, 30, 40, 50, 60)])
    assert total == Usage(11, 22, 33, 44, 55, 66)
    assert total.tokens == Tokens(22, 33, 44, 55)
