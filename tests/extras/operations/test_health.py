"""How a provider is judged, and how this process is named."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from gateway.admin.fields import name_process
from gateway.extras.observations.records import CallSums, UpstreamView
from gateway.extras.operations.health import judge
from gateway.extras.operations.needs import name_node
from gateway.ledger.records import DatabaseUrl
from tests.extras.observations.kit import make_failure

NONE: Final = CallSums()


def see(
    hour: CallSums,
    latest: CallSums | None = None,
    *,
    model: str = "m",
    failed_ms: int | None = None,
) -> UpstreamView:
    failure = None if failed_ms is None else make_failure(failed_ms)
    return UpstreamView("p", model, hour, hour, latest or hour, failure)


def test_what_works_does_not_hide_what_does_not() -> None:
    rows = [see(CallSums(90)), see(CallSums(9, 9), model="n", failed_ms=5)]
    judged = judge([*rows, see(NONE, model="o", failed_ms=7)])
    assert (judged.state, judged.words) == ("failing", "failing for 1 of 3 models")
    assert judged.hour == CallSums(99, 9)
    assert judged.failure == make_failure(7)


def test_this_process_is_a_node_on_postgresql_alone() -> None:
    assert name_node(Path("gateway.db")) is None
    assert name_node(DatabaseUrl("postgresql:///g")) == name_process(os.getpid())
