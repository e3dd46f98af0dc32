"""Latencies as functions of plain values, for `examples.txt`."""

from __future__ import annotations

from gateway.extras.observations import records
from gateway.extras.observations.records import Latency, LatencyCount


def measure_latency(*counts: list[int]) -> Latency:
    """Measure replies: a bucket, how many began in it, and how many ended."""
    return records.measure_latency(LatencyCount((), *one) for one in counts)
