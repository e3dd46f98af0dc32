"""Slow and idle callers: bounded memory, cut at their deadlines.

Here a few dozen of each. `python -m tests.long slow` plays 500 readers, 1,000 heads and 10,000 idle
callers, and measures the effect on others.
"""

from __future__ import annotations

import pytest

from tests.api.slow import MIB, play_idlers, play_slow_bodies, play_slow_heads, play_stalled_readers

pytestmark = pytest.mark.slow

COUNT = 50
RSS_BYTES_EACH = 0.75 * MIB


async def test_stalled_readers_are_cut_and_cost_little() -> None:
    figures = await play_stalled_readers(COUNT, stall_seconds=1.5)
    print(figures)
    assert figures.rss_bytes_each <= RSS_BYTES_EACH
    assert figures.gone_after_seconds >= 1.0


async def test_dripping_heads_are_closed_at_the_header_deadline() -> None:
    figures, told = await play_slow_heads(COUNT, "header_seconds = 0.8", 0.8)
    print(figures)
    assert {one[:12] for one in told} <= {b"", b"HTTP/1.1 408", b"HTTP/1.0 408"}


async def test_dripping_bodies_are_refused_at_the_body_deadline() -> None:
    server = "body_idle_seconds = 5\nbody_total_seconds = 0.8"
    figures, told = await play_slow_bodies(COUNT, server, 0.8)
    print(figures)
    assert {one[:12] for one in told} == {b"HTTP/1.1 408"}


async def test_idle_connections_are_closed_at_the_header_deadline() -> None:
    figures, told = await play_idlers(COUNT, "header_seconds = 0.8", 0.8)
    print(figures)
    assert set(told) == {b""}
