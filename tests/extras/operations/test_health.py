"""How a provider is judged."""

from __future__ import annotations

from typing import Final

from gateway.extras.observations.records import CallSums, UpstreamView
from gateway.extras.operations.health import Pause, State, judge
from tests.extras.observations.kit import make_failure
from tests.support.rows import each_row

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


JUDGED: Final[tuple[tuple[UpstreamView, Pause | None, State, str], ...]] = (
    (see(NONE), None, "not_asked", "not asked yet"),
    (see(CallSums(9)), None, "working", "working"),
    (see(CallSums(9, 4)), None, "working", "working (4 of 9 failed in its latest ten minutes)"),
    (see(CallSums(2, 2)), None, "working", "working (2 of 2 failed in its latest ten minutes)"),
    (see(CallSums(3, 3), CallSums(1, 1)), None, "failing", "failing (all 3 in the last hour)"),
    (see(CallSums(9, 9)), None, "failing", "failing (9 of 9 in its latest ten minutes)"),
    (see(CallSums(8, 4)), None, "failing", "failing (4 of 8 in its latest ten minutes)"),
    (
        see(CallSums(90, 60), CallSums(9, 1)),
        None,
        "working",
        "working (1 of 9 failed in its latest ten minutes)",
    ),
    (
        see(CallSums(90, 9), CallSums(9, 9)),
        None,
        "failing",
        "failing (9 of 9 in its latest ten minutes)",
    ),
    (see(NONE, CallSums(3, 3)), None, "failing", "failing (3 of 3 in its latest ten minutes)"),
    (see(NONE, CallSums(3)), None, "working", "working"),
    (see(CallSums(9, 9)), Pause("resting", 12), "resting", "resting for 12 s"),
    (see(CallSums(9, 9)), Pause("probing"), "probing", "being tried"),
)


@each_row(("seen", "pause", "state", "words"), JUDGED)
def test_a_provider_is_judged_by_its_latest_calls(
    seen: UpstreamView, pause: Pause | None, state: State, words: str
) -> None:
    judged = judge([seen], pause)
    assert (judged.state, judged.words) == (state, words)
    assert judge([seen], pause, is_off=True).state == "off"
    assert judge([]).state == "not_asked"


def test_what_works_does_not_hide_what_does_not() -> None:
    rows = [see(CallSums(90)), see(CallSums(9, 9), model="n", failed_ms=5)]
    judged = judge([*rows, see(NONE, model="o", failed_ms=7)])
    assert (judged.state, judged.words) == ("failing", "failing for 1 of 3 models")
    assert judged.hour == CallSums(99, 9)
    assert judged.failure == make_failure(7)
