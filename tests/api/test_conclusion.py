"""The conclusion of a completion: the charge first, then the last bytes, whatever fails."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from gateway.api.completions import conclude, conclude_at_once
from gateway.api.lifecycle import Last, Owed, Verdict
from gateway.errors import GatewayError, LedgerUnavailable, UpstreamError
from tests.support.records import make_call
from tests.support.rows import each_row

REPLY = Verdict("complete", 200, Owed.USAGE, Last.REPLY)
BROKEN = Verdict("upstream_error", None, Owed.USAGE, Last.ERROR)
REFUSED = Verdict("upstream_error", None, Owed.NOTHING, Last.ERROR)
LEFT = Verdict("caller_left", 200, Owed.EXPECTED, Last.NOTHING)
FAILED = UpstreamError("It broke off.")


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

    def settle(
        self, verdict: Verdict, error: GatewayError | None, pipeline: object
    ) -> Awaitable[None] | None:
        assert pipeline is not None
        status = verdict.status or (500 if error is None else error.status)
        self.done.append((verdict.owed, verdict.outcome, status))
        return None if verdict.owed is Owed.NOTHING else self.commit

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
    def parts(self) -> tuple[Any, Any, Any]:
        """Return the completion, the sink and the pipeline."""
        call = make_call()
        request = SimpleNamespace(stream=self.stream)
        work = SimpleNamespace(call=call, bill=self, request=request, headers={})
        pipeline = SimpleNamespace(
            finish=lambda: b"last",
            mid_event=self.mid_event,
            position=None,
        )
        return work, self, pipeline

    async def conclude(self, verdict: Verdict, error: GatewayError | None = None) -> None:
        work, sink, pipeline = self.parts
        await conclude(work, sink, pipeline, verdict, error)


async def test_the_last_bytes_wait_for_the_commit() -> None:
    scene = Scene()
    concluding = asyncio.ensure_future(scene.conclude(REPLY))  # noqa: TID251 - awaited below
    await asyncio.sleep(0)
    charged = (Owed.USAGE, "complete", 200)
    assert scene.done == [charged]
    scene.commit.set_result(None)
    await concluding
    assert scene.done == [charged, ("end", b"last")]


async def test_a_caller_who_left_is_not_waited_for() -> None:
    scene = Scene()
    await scene.conclude(LEFT)
    assert scene.done == [(Owed.EXPECTED, "caller_left", 200), "abort"]


@each_row(("opened", "mid_event"), [(False, False), (True, False), (True, True)])
async def test_an_error_is_a_status_an_event_or_a_cut(*, opened: bool, mid_event: bool) -> None:
    """Nothing may be put behind half an event."""
    scene = Scene(opened=opened, mid_event=mid_event)
    if opened:
        await scene.conclude(REFUSED, FAILED)
        assert scene.done[1:] == (["abort"] if mid_event else [("end", True)])
    else:
        with pytest.raises(UpstreamError):
            await scene.conclude(REFUSED, FAILED)
    assert scene.done[0] == (Owed.NOTHING, "upstream_error", FAILED.status)


async def test_a_json_reply_whose_charge_is_not_committed_is_withheld() -> None:
    scene = Scene(stream=False, opened=False)
    scene.commit.set_exception(LedgerUnavailable())
    with pytest.raises(LedgerUnavailable):
        await scene.conclude(REPLY)
    assert scene.done == [
        (Owed.USAGE, "complete", 200),
        ("withdrawn", "ledger_error", LedgerUnavailable.status),
    ]


async def test_a_stream_whose_charge_is_not_committed_ends_in_an_error_and_stays_charged() -> None:
    scene = Scene()
    scene.commit.set_exception(LedgerUnavailable())
    await scene.conclude(REPLY)
    assert scene.done == [(Owed.USAGE, "complete", 200), ("end", True)]


async def test_the_error_that_came_first_is_told() -> None:
    """An outage while a broken stream is charged is not what the caller needs to know."""
    scene = Scene(opened=False)
    scene.commit.set_exception(LedgerUnavailable())
    with pytest.raises(UpstreamError):
        await scene.conclude(BROKEN, FAILED)


async def test_a_json_reply_is_not_called_charged_where_its_charge_is_withdrawn() -> None:
    """The log and the ledger have the outage's status too."""
    scene = Scene(stream=False, opened=False)
    scene.commit.set_exception(LedgerUnavailable())
    with pytest.raises(LedgerUnavailable):
        await scene.conclude(BROKEN, FAILED)
    assert scene.done[1:] == [("withdrawn", "ledger_error", LedgerUnavailable.status)]


@each_row(
    ("opened", "lost", "mid_event"),
    [(True, False, False), (False, False, False), (True, True, False), (True, False, True)],
)
async def test_a_cancelled_task_queues_the_charge_and_waits_for_nothing(
    *, opened: bool, lost: bool, mid_event: bool
) -> None:
    scene = Scene(opened=opened, lost=lost, mid_event=mid_event)
    work, sink, pipeline = scene.parts
    verdict = Verdict("shutdown", 200, Owed.USAGE, Last.ERROR)
    conclude_at_once(work, sink, pipeline, verdict)
    told = [("send", True)] if opened and not lost and not mid_event else []
    assert scene.done == [(Owed.USAGE, "shutdown", 200), *told]


async def test_a_settlement_that_was_queued_is_not_queued_again() -> None:
    scene = Scene()
    conclude_at_once(*scene.parts, None)
    assert scene.done == [("send", True)]
    assert not scene.commit.done()
