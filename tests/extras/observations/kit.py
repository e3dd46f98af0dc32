"""Rows that tests write beside the books."""

from __future__ import annotations

from functools import partial

from gateway.extras.observations.book import write_observations
from gateway.extras.observations.observer import Observations
from gateway.extras.observations.records import UpstreamFailure
from gateway.ledger.base import Aside
from tests.ledger.contract.kit import NOW_MS


def make_failure(at_ms: int = NOW_MS) -> UpstreamFailure:
    return UpstreamFailure(at_ms, f"req_{at_ms}", 401, "status 401", "https://api/v1/chat")


def writing(observed: Observations, now_ms: int = NOW_MS) -> Aside:
    """Make what a store writes."""
    return partial(write_observations, observed=observed, now_ms=now_ms)
