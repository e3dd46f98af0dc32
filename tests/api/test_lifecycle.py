"""The state machine of a completion: its steps, and a row for every ending."""

from __future__ import annotations

from itertools import product

import pytest

from gateway.api.lifecycle import (
    ENDINGS,
    OUTCOMES,
    UNCOMMITTED,
    VERDICTS,
    Ending,
    Last,
    Leaving,
    Lifecycle,
    Owed,
    Phase,
    find_ending,
    lose_charge,
)
from gateway.errors import GatewayFault, LedgerUnavailable, OutOfResources, Overloaded
from tests.support.rows import each_row

LIVING = [phase for phase in Phase if phase is not Phase.ENDED]


def make_life(*phases: Phase) -> Lifecycle:
    life = Lifecycle()
    for phase in phases:
        life.advance(phase)
    return life


@each_row(
    ("error", "ending"),
    [
        (Overloaded("M"), Ending.SHUTDOWN),
        (LedgerUnavailable(), Ending.UNRECORDED),
        (OutOfResources("M"), Ending.FAULT),
    ],
)
def test_what_our_own_503_means(error: GatewayFault, ending: Ending) -> None:
    assert find_ending(error) is ending


def test_every_case_has_one_verdict_but_an_abandoned_caller_who_is_there() -> None:
    cases = set(product(Ending, (True, False), LIVING, (True, False)))
    impossible = {case for case in cases if case[0] is Ending.ABANDONED and not case[1]}
    assert set(VERDICTS) == cases - impossible
    assert len(VERDICTS) == sum(
        len(row[0]) * len(row[1]) * len(row[2]) * len(row[3]) for row in ENDINGS
    ), "no case stands in two rows"


def test_nothing_is_owed_where_nothing_came_and_the_caller_hears_of_a_failure() -> None:
    for (ending, gone, _, delivered), (owed, last) in VERDICTS.items():
        made = ending in {Ending.COMPLETE, Ending.ABANDONED, Ending.UNDELIVERABLE}
        if not made and not delivered:
            assert owed is Owed.NOTHING
        if ending is Ending.UNDELIVERABLE:
            assert owed is Owed.USAGE
        if gone:
            assert last is Last.NOTHING
        else:
            assert last is (Last.REPLY if ending is Ending.COMPLETE else Last.ERROR)


@each_row(
    "steps",
    [
        (Phase.SENT, Phase.ANSWERED, Phase.STREAMING),
        (Phase.SENT, Phase.ADMITTED, Phase.SENT, Phase.ANSWERED),
        (Phase.SENT, Phase.SENT, Phase.ANSWERED),
    ],
)
def test_a_request_goes_on(steps: tuple[Phase, ...]) -> None:
    assert make_life(*steps).phase is steps[-1]


@each_row(
    "steps",
    [
        (Phase.ANSWERED,),
        (Phase.STREAMING,),
        (Phase.ENDED,),
        (Phase.SENT, Phase.STREAMING),
        (Phase.SENT, Phase.ANSWERED, Phase.SENT),
        (Phase.SENT, Phase.ANSWERED, Phase.ADMITTED),
        (Phase.SENT, Phase.ANSWERED, Phase.STREAMING, Phase.ANSWERED),
    ],
)
def test_a_step_that_no_request_makes_is_a_bug(steps: tuple[Phase, ...]) -> None:
    with pytest.raises(ValueError, match="cannot go from"):
        make_life(*steps)


def test_a_life_ends_once() -> None:
    life = make_life(Phase.SENT)
    life.end(Ending.FAILED, delivered=False, head_sent=False)
    with pytest.raises(LookupError):
        life.end(Ending.SHUTDOWN, delivered=False, head_sent=False)
    with pytest.raises(ValueError, match="ENDED"):
        life.advance(Phase.ANSWERED)


@each_row(
    ("steps", "drains", "finished", "leaving"),
    [
        ((), True, False, Leaving.STOP),
        ((Phase.SENT,), True, False, Leaving.READ_ON),
        ((Phase.SENT,), False, False, Leaving.STOP),
        ((Phase.SENT, Phase.ANSWERED), False, True, Leaving.READ_USAGE),
        ((Phase.SENT, Phase.ANSWERED), True, True, Leaving.READ_ON),
    ],
)
def test_a_caller_that_leaves(
    steps: tuple[Phase, ...], leaving: Leaving, *, drains: bool, finished: bool
) -> None:
    life = make_life(*steps)
    assert life.leave(drains=drains, finished=finished) is leaving
    assert life.caller_gone


@each_row("ending", OUTCOMES)
def test_the_status_is_the_errors_own_until_the_head_is_sent(ending: Ending) -> None:
    before = make_life(Phase.SENT).end(ending, delivered=False, head_sent=False)
    assert before.outcome == OUTCOMES[ending]
    assert before.status == (200 if ending is Ending.COMPLETE else None)
    after = make_life(Phase.SENT).end(ending, delivered=False, head_sent=True)
    assert after.status == 200


@each_row(("head_sent", "status"), [(False, 499), (True, 200)])
def test_a_caller_that_left_is_recorded_as_such(status: int, *, head_sent: bool) -> None:
    life = make_life(Phase.SENT)
    life.leave(drains=False, finished=False)
    verdict = life.end(Ending.ABANDONED, delivered=False, head_sent=head_sent)
    assert (verdict.outcome, verdict.status) == ("caller_left", status)


def test_a_charge_that_cannot_be_committed_is_withdrawn_unless_a_stream_delivered_it() -> None:
    verdict = make_life(Phase.SENT).end(Ending.COMPLETE, delivered=True, head_sent=False)
    json_reply = lose_charge(verdict, 503, stream=False)
    assert (json_reply.outcome, json_reply.status) == ("ledger_error", 503)
    assert (json_reply.owed, json_reply.last) == (Owed.NOTHING, Last.ERROR)
    stream = lose_charge(verdict, 503, stream=True)
    assert (stream.outcome, stream.status) == ("complete", 200)
    assert (stream.owed, stream.last) == (Owed.USAGE, Last.ERROR)
    assert {row[0] for row in UNCOMMITTED} == {False, True}
