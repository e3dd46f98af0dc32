"""Sums that wait for the disk."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

import pytest

from gateway.extras.observations import observer as module
from gateway.extras.observations.observer import CallSum, Observations, Observer
from tests.extras.observations.kit import make_failure
from tests.ledger.contract.kit import NOW_MS
from tests.support.waiting import until


class FakeStore:
    """Keeps what is to be written; `answer` ends the write under way, well or not."""

    def __init__(self) -> None:
        self.written: list[Observations] = []
        self.answers: list[BaseException | None] = []
        self._report: Callable[[BaseException | None], None] | None = None

    def start_writing(
        self, observed: Observations, report: Callable[[BaseException | None], None]
    ) -> None:
        assert self._report is None, "one write at a time"
        self.written.append(observed)
        self._report = report
        if self.answers:
            asyncio.get_running_loop().call_soon(self.answer, self.answers.pop(0))

    def answer(self, error: BaseException | None) -> None:
        report, self._report = self._report, None
        assert report is not None
        report(error)


def make_observer(store: FakeStore) -> Observer:
    return Observer(store.start_writing, lambda: NOW_MS)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WRITE_SECONDS", 0.001)
    monkeypatch.setattr(module, "RETRY_SECONDS", 0.001)


async def test_nothing_is_written_when_nothing_was_counted() -> None:
    store = FakeStore()
    await make_observer(store).close()
    assert store.written == []


async def test_what_comes_together_is_written_together() -> None:
    store = FakeStore()
    store.answers = [None]
    observer = make_observer(store)
    for _ in range(1000):
        observer.note_upstream_call("p", "m", None)
        observer.note_refusal(1, "c", "", "req_1")
        observer.note_latency(1, "p", "m", NOW_MS, first_byte_ms=9, total_ms=90)
    assert store.written == [], "a count is a step in memory"
    await observer.close()
    (observed,) = store.written
    assert [one.calls for one in observed.calls.values()] == [1000]
    assert [one.count for one in observed.refusals.values()] == [1000]
    assert list(observed.latencies.values()) == [[9, 90] * 1000]


@pytest.mark.usefixtures("hurried")
async def test_what_cannot_be_written_is_kept_and_added_to(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = FakeStore()
    observer = make_observer(store)
    observer.note_upstream_call("p", "m", make_failure())
    observer.note_refusal(None, "c", "", "req_1")
    observer.note_latency(1, "p", "m", NOW_MS, first_byte_ms=9, total_ms=90)
    await until(lambda: len(store.written) == 1, "a try")
    observer.note_upstream_call("p", "m", None)
    observer.note_refusal(None, "c", "", "req_2")
    observer.note_latency(1, "p", "m", NOW_MS, first_byte_ms=8, total_ms=85)
    timer = observer._timer
    store.answer(OSError("full"))
    assert observer._timer is timer is not None, "the next write is due already"
    await until(lambda: len(store.written) == 2, "another try")
    store.answers = [None]
    store.answer(OSError("full"))
    await observer.close()
    (call,) = store.written[-1].calls.values()
    (refusal,) = store.written[-1].refusals.values()
    assert call == CallSum(2, 1, make_failure())
    assert list(store.written[-1].latencies.values()) == [[9, 90, 8, 85]]
    assert (refusal.count, refusal.last_request_id) == (2, "req_2")
    assert len(caplog.messages) == 1, "an outage is told once"


@pytest.mark.usefixtures("hurried")
async def test_tries_that_fail_keep_no_more_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_SUMS", 3)
    store = FakeStore()
    observer = make_observer(store)
    for tries in range(1, 4):
        for number in range(4):
            observer.note_refusal(tries * 10 + number, "c", "", "req_1")
            observer.note_upstream_call("p", f"{tries}{number}", make_failure())
            observer.note_latency(
                tries * 10 + number, "p", "m", NOW_MS, first_byte_ms=9, total_ms=90
            )
        await until(lambda: store._report is not None, "a try")
        for number in range(3):
            observer.note_refusal(tries * 10 + 5 + number, "c", "", "req_1")
            observer.note_latency(
                tries * 10 + 5 + number, "p", "m", NOW_MS, first_byte_ms=9, total_ms=90
            )
            observer.note_upstream_call("p", "m", make_failure())
        store.answer(OSError("down"))
    store.answers = [None]
    await observer.close()
    observed = store.written[-1]
    assert [row[2] for row in observed.refused] == [10, 11, 12]
    assert (len(observed.refusals), len(observed.failures)) == (3, 3)
    assert (len(observed.calls), len(observed.latencies)) == (3, 3)


async def test_a_flood_of_refusals_takes_no_place_of_other_accounts() -> None:
    store = FakeStore()
    store.answers = [None]
    observer = make_observer(store)
    for account_id in [1] * 10_000 + [2]:
        observer.note_refusal(account_id, "c", "", "req_1")
    await observer.close()
    (observed,) = store.written
    assert Counter(row[2] for row in observed.refused) == {1: 64, 2: 1}
    assert [one.count for one in observed.refusals.values()] == [10_000, 1]


@pytest.mark.usefixtures("hurried")
async def test_a_stop_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CLOSE_SECONDS", 0.02)
    store = FakeStore()
    observer = make_observer(store)
    observer.note_refusal(None, "c", "", "req_1")
    await observer.close()
    assert len(store.written) == 1, "the disk hangs"
