"""The durations of the headers that tell a key's limits."""

from __future__ import annotations

import pytest

from gateway.dialects.wire.limit_headers import format_duration


@pytest.mark.parametrize(
    ("seconds", "written"),
    [
        (-1, "0ms"),
        (0, "0ms"),
        (0.0124, "12ms"),
        (0.999, "999ms"),
        (0.9999, "1s"),
        (1, "1s"),
        (1.001, "2s"),
        (59.5, "1m0s"),
        (60, "1m0s"),
        (61.2, "1m2s"),
        (360, "6m0s"),
    ],
)
def test_durations_are_written_as_go_does(seconds: float, written: str) -> None:
    assert format_duration(seconds) == written
