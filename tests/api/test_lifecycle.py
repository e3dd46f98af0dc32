"""The life of a completion: its table of endings, and its conclusion, the charge before the last bytes."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Awaitable
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import product
from types import SimpleNamespace
from typing import Any, Final, cast

import pytest

from gateway.api.completions import Relay
from gateway.api.delivery import StreamDelivery
from gateway.api.front import Call
from gateway.api.lifecycle import ENDINGS, VERDICTS, Ending, Last, Owed, Phase, Verdict
from gateway.base.deadlines import Clock
from gateway.base.errors import STOPPED, GatewayError, LedgerUnavailable, Overloaded, UpstreamError
from tests.api.lives.life import Report, play_lives
from tests.api.plain import make_life
from tests.support.records import make_call
from tests.support.rows import each_row

LIVING = [phase for phase in Phase if phase is not Phase.ENDED]


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


FAILED: Final = UpstreamError("It broke off.")
STOP: Final = Overloaded(STOPPED)


def test_a_life_ends_once() -> None:
    life = make_life("SENT")
    life.end(FAILED, head_sent=False, delivered=False)
    with pytest.raises(LookupError):
        life.end(STOP, head_sent=False, delivered=False)
    with pytest.raises(ValueError, match="ENDED"):
        life.advance(Phase.ANSWERED)


@each_row(("delivered", "owed"), [(True, Owed.USAGE), (False, Owed.NOTHING)])
def test_a_reply_that_was_read_is_owed_for_although_a_shutdown_comes(
    owed: Owed, *, delivered: bool
) -> None:
    """The caller of it has left, and the provider made it."""
    life = make_life("SENT ANSWERED")
    life.caller_gone = True
    assert life.end(STOP, head_sent=False, delivered=delivered).owed is owed


REPLY = Verdict("complete", 200, Owed.USAGE, Last.REPLY)
BROKEN = Verdict("upstream_error", 502, Owed.USAGE, Last.ERROR)
REFUSED = Verdict("upstream_error", 502, Owed.NOTHING, Last.ERROR)
LEFT = Verdict("caller_left", 200, Owed.EXPECTED, Last.NOTHING)


@dataclass
class Scene:
    """One completion whose bill and sink write down what happens, in order."""

    stream: bool = True
    opened: bool = True
    mid_event: bool = False
    lost: bool = False
    commit: asyncio.Future[None] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )
    done: list[Any] = field(default_factory=list)
    call: Call = field(default_factory=make_call)

    def settle(self, verdict: Verdict, measure: object) -> Awaitable[None] | None:
        assert measure is not None
        self.done.append((verdict.owed, verdict.outcome, verdict.status))
        self.call.settlement = cast("Any", verdict)
        return None if verdict.owed is Owed.NOTHING else self.commit

    async def confirm(self) -> None:
        raise KeyError("a bug")

    def close(self) -> None:
        """Send nothing more: nothing is written down."""

    def note_first_byte(self) -> None:
        assert not self.done, "the time is part of the charge's row"

    def note_withdrawal(self, outcome: str, status: int) -> None:
        self.done.append(("withdrawn", outcome, status))

    def send(self, data: bytes) -> bool:
        self.done.append(("send", b"server_is_overloaded" in data))
        return True

    def end(self, data: bytes) -> None:
        self.done.append(("end", data if data == b"last" else b"error" in data))

    def abort(self) -> None:
        self.done.append("abort")

    @property
    def relay(self) -> Relay:
        """One whose reply has been read."""
        call = self.call
        request = SimpleNamespace(stream=self.stream)
        work = SimpleNamespace(call=call, bill=self, request=request, headers={}, keep=None)
        pipeline = SimpleNamespace(
            mid_event=self.mid_event,
            position=None,
            take_last=self.take_last,
            measure=dict,
            complete=False,
            delivered=True,
            finished=False,
        )
        none: Any = None
        delivery = StreamDelivery(none, none, none, none, none, cast("Any", pipeline), False)
        ticker = SimpleNamespace(clock=Clock(), add=id, remove=id)
        gateway: Any = SimpleNamespace(ticker=ticker)
        call.gateway = gateway
        life = make_life("SENT ANSWERED STREAMING" if self.opened else "SENT ANSWERED")
        return Relay(cast("Any", work), cast("Any", self), life, _delivery=delivery)

    def take_last(self) -> bytes:
        return b"last"

    async def conclude(self, verdict: Verdict, error: GatewayError | None = None) -> None:
        await self.relay.conclude(verdict, error)


CHARGED: Final = (Owed.USAGE, "complete", 200)
BEGUN: Final = (Owed.USAGE, "upstream_error", 502)
FREE: Final = (Owed.NOTHING, "upstream_error", 502)
WITHDRAWN: Final = ("withdrawn", "ledger_error", 503)
JSON: Final = {"stream": False, "opened": False}
UNCOMMITTED_CHARGE: Final = LedgerUnavailable()


@each_row(
    ("scene", "verdict", "commit", "done", "raised"),
    [
        # A caller who left is not waited for.
        ({}, LEFT, None, [(Owed.EXPECTED, "caller_left", 200), "abort"], None),
        # An error is a status, an event or, within an event, a cut.
        ({"opened": False}, REFUSED, None, [FREE], FAILED),
        ({}, REFUSED, None, [FREE, ("end", True)], None),
        ({"mid_event": True}, REFUSED, None, [FREE, "abort"], None),
        # A reply whose charge is not committed: JSON is withheld and free, a stream stays charged.
        (JSON, REPLY, UNCOMMITTED_CHARGE, [CHARGED, WITHDRAWN], UNCOMMITTED_CHARGE),
        ({}, REPLY, UNCOMMITTED_CHARGE, [CHARGED, ("end", True)], None),
        # The error that came first is told, unless a JSON reply's charge is withdrawn.
        ({"opened": False}, BROKEN, UNCOMMITTED_CHARGE, [BEGUN], FAILED),
        (JSON, BROKEN, UNCOMMITTED_CHARGE, [BEGUN, WITHDRAWN], UNCOMMITTED_CHARGE),
    ],
)
async def test_a_conclusion(
    scene: dict[str, Any],
    verdict: Verdict,
    commit: GatewayError | None,
    done: list[object],
    raised: GatewayError | None,
) -> None:
    one, error = Scene(**scene), FAILED if verdict in {REFUSED, BROKEN} else None
    if commit is None:
        one.commit.set_result(None)
    else:
        one.commit.set_exception(commit)
        one.commit.exception()
    (result,) = await asyncio.gather(one.conclude(verdict, error), return_exceptions=True)
    assert (result, one.done) == (raised, done)


@each_row(
    ("opened", "lost", "mid_event", "outcome"),
    [
        (True, False, False, (Owed.USAGE, "shutdown", 200)),
        (False, False, False, (Owed.NOTHING, "shutdown", 503)),
        (True, True, False, (Owed.USAGE, "caller_left", 200)),
        (True, False, True, (Owed.USAGE, "shutdown", 200)),
    ],
)
async def test_a_cancelled_task_queues_the_charge_and_waits_for_nothing(
    outcome: object, *, opened: bool, lost: bool, mid_event: bool
) -> None:
    scene = Scene(opened=opened, lost=lost, mid_event=mid_event)
    scene.relay._conclude_at_once(asyncio.CancelledError())
    told = [("send", True)] if opened and not lost and not mid_event else []
    assert [one for one in scene.done if one != "abort"] == [outcome, *told]


async def test_a_settlement_that_was_queued_is_not_queued_again() -> None:
    scene = Scene()
    scene.call.settlement = cast("Any", "the first one")
    scene.relay._conclude_at_once(asyncio.CancelledError())
    assert scene.done == [("send", True)]
    assert not scene.commit.done()


@each_row("opened", [True, False])
async def test_a_fault_in_the_conclusion_costs_nothing_and_cuts_a_stream(*, opened: bool) -> None:
    scene = Scene(opened=opened)
    scene.relay._conclude_at_once(KeyError("a bug"))
    assert scene.done == [(Owed.NOTHING, "internal_error", 500), *["abort"] * opened]


@each_row("opened", [True, False])
async def test_a_fault_of_our_own_is_raised_only_where_no_head_was_sent(*, opened: bool) -> None:
    """Behind a head no status can tell it, and aiohttp would log it once more."""
    scene = Scene(opened=opened)
    with nullcontext() if opened else pytest.raises(KeyError):
        await scene.relay.run()
    assert scene.done[0] == (Owed.NOTHING, "internal_error", 500)


LIVES = 60


def play(lives: int) -> Report:
    """One settlement, one release of the hold, last bytes after the commit, nothing after them."""
    seed = random.SystemRandom().randrange(10**9)
    started = time.monotonic()
    report = play_lives(seed, lives)
    print(f"seed {seed}, {time.monotonic() - started:.1f} s\n{report}")
    assert not report.broken, report.broken[0].describe()
    return report


def test_every_life_ends_once_and_settles_once() -> None:
    play(LIVES)


@pytest.mark.daily
@pytest.mark.no_cover
def test_all_endings_are_reached() -> None:
    reached: Counter[int] = Counter()
    for _ in range(70):
        reached += play(LIVES).rows
        if len(reached) == len(ENDINGS):
            return
    pytest.fail(f"{len(reached)} of {len(ENDINGS)} were reached")
