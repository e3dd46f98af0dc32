"""How a provider is judged, as a function of plain values, for `examples.txt`."""

from __future__ import annotations

from typing import Any

from gateway.extras.observations.records import CallSums
from gateway.extras.operations import health
from gateway.extras.operations.health import Pause
from tests.extras.operations.test_health import see


def judge(
    hour: list[int] | None, latest: list[int] | None = None, pause: list[Any] | None = None
) -> str:
    """Judge by calls and failures of an hour, and of the latest ten minutes if these differ; null: by nothing."""
    recent = None if latest is None else CallSums(*latest)
    seen = [] if hour is None else [see(CallSums(*hour), recent)]
    rests = None if pause is None else Pause(*pause)
    judged = health.judge(seen, rests)
    assert health.judge(seen, rests, is_off=True).state == "off"
    return f"{judged.state}: {judged.words}"
