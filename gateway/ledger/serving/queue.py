"""The holds whose row or settlement is not committed, in the order they came, and their waits."""

from __future__ import annotations

import logging
from asyncio import Future, get_running_loop
from collections.abc import Container
from dataclasses import replace
from itertools import chain, islice

from gateway.errors import GatewayError, InternalError, LedgerUnavailable
from gateway.ledger.base import Account
from gateway.ledger.serving.memory import QueuedHold, drop_hold, make_void
from gateway.ledger.serving.rounds import MAX_ITEMS, Item

log = logging.getLogger("gateway.ledger")


class Queue:
    """Only the event loop touches it. A hold stays until all that is known of it is committed."""

    def __init__(self) -> None:
        self._holds: dict[QueuedHold, None] = {}
        """The steps of the next batches, in order."""
        self._aside: dict[Account, dict[QueuedHold, None]] = {}
        """By account, steps that wait for a lock of another program; in no batch before `take_back`."""
        self._fresh: list[QueuedHold] = []
        self._older: list[QueuedHold] = []
        """Admissions that linger; some may have been added since."""
        self.open_holds = 0
        """Holds that nothing has resolved yet, those that linger too."""

    def __len__(self) -> int:
        """Return the number of holds that the next batches commit."""
        return len(self._holds)

    @property
    def has_aside(self) -> bool:
        return bool(self._aside)

    @property
    def lingers(self) -> bool:
        """Return whether there are holds that `ripen` will add."""
        return bool(self._fresh or self._older)

    def linger(self, hold: QueuedHold) -> None:
        """Keep the hold's row back until `ripen`, or until somebody waits for it."""
        self._fresh.append(hold)
        self.open_holds += 1

    def admit(self, hold: QueuedHold) -> None:
        """Queue the hold's row, for which its request waits."""
        self.open_holds += 1
        self.add(hold)

    def ripen(self) -> bool:
        """Add what has lingered since before the last call; return whether there was any."""
        ripe = [one for one in self._older if one.admitted is None and one.settled is None]
        self._older, self._fresh = self._fresh, []
        self._holds.update(dict.fromkeys(ripe))
        return bool(ripe)

    def ripen_all(self) -> None:
        while self.lingers:
            self.ripen()

    def add(self, hold: QueuedHold) -> None:
        """Queue the hold's row, its settlement, or both."""
        self._aside.get(hold.account, self._holds)[hold] = None

    def set_aside(self, accounts: Container[Account]) -> None:
        """Keep the steps of these accounts out of the next batches, for which they would be in the way."""
        for hold in [one for one in self._holds if one.account in accounts]:
            del self._holds[hold]
            self._aside.setdefault(hold.account, {})[hold] = None

    def take_back(self) -> None:
        """Queue again what was set aside."""
        for holds in self._aside.values():
            self._holds.update(holds)
        self._aside.clear()

    def find(self, request_id: str) -> QueuedHold | None:
        holds = chain(self._holds, *self._aside.values(), self._older, self._fresh)
        return next((one for one in holds if one.admission.request_id == request_id), None)

    def make_batch(self) -> list[Item]:
        """Return the steps to commit next; they stay queued."""
        holds = list(islice(self._holds, MAX_ITEMS))
        for hold in holds:
            hold.raised = False
        return [Item(hold, not hold.recorded, hold.settlement) for hold in holds]

    def finish(self, item: Item) -> None:
        """End the waits for a step that is committed."""
        hold = item.hold
        assert isinstance(hold, QueuedHold)
        hold.recorded = True
        if hold.admitted is not None:
            end_wait(hold.admitted)
        if hold.settlement is not item.settlement:
            return  # it came, or was withdrawn, meanwhile
        if item.settlement is not None:
            self._resolve(hold)
            if hold.settled is not None:
                end_wait(hold.settled)
        if not hold.raised:
            del self._holds[hold]

    def decline(self, item: Item, error: GatewayError) -> None:
        """Fail the admission that the ledger's rules refuse; a void that waits for it is done."""
        hold = item.hold
        assert isinstance(hold, QueuedHold)
        del self._holds[hold]
        self._resolve(hold)
        fail_wait(hold.admitted, error)
        if hold.settled is None:
            hold.settled = get_running_loop().create_future()
        end_wait(hold.settled)

    def refuse(self, item: Item, error: Exception) -> None:
        """Fail a bad item alone and release its hold.

        A charge that cannot be written becomes a void, so that the request has a row all the same.
        """
        hold = item.hold
        assert isinstance(hold, QueuedHold)
        log.error("request %s: the ledger refused it: %s", hold.admission.request_id, error)
        if item.settlement is not None and item.settlement.is_posted:
            hold.settlement = make_void(hold.admission)
            fail_wait(hold.settled, InternalError())
            return
        del self._holds[hold]
        self._resolve(hold)
        if hold.settled is None:
            hold.settled = get_running_loop().create_future()
        fail_wait(hold.admitted, InternalError())
        fail_wait(hold.settled, InternalError())

    def _resolve(self, hold: QueuedHold) -> None:
        if not hold.resolved:
            self.open_holds -= 1
            drop_hold(hold)

    def expire(self, begun_by_seconds: float, but: Container[object] = ()) -> None:
        """Fail the waits that began by then, and void the charges that are withdrawn when late."""
        for hold in chain(self._holds, *self._aside.values()):
            if hold.waiting_since_seconds > begun_by_seconds or hold in but:
                continue
            fail_wait(hold.admitted, LedgerUnavailable(should_retry=False))
            if fail_wait(hold.settled, LedgerUnavailable(should_retry=False)):
                _withdraw(hold)

    def fail_all(self) -> None:
        """Fail all waits, because nothing will be committed any more."""
        self.ripen_all()
        self.take_back()
        for hold in self._holds:
            fail_wait(hold.admitted, LedgerUnavailable(should_retry=False))
            fail_wait(hold.settled, LedgerUnavailable(should_retry=False))
            log.error("request %s: the ledger closed before it", hold.admission.request_id)


def _withdraw(hold: QueuedHold) -> None:
    settlement = hold.settlement
    if settlement is not None and settlement.withdraw_if_late and settlement.is_posted:
        hold.settlement = replace(settlement, outcome="ledger_error", cost_nano=0, status=503)


def end_wait(wait: Future[None]) -> None:
    if not wait.done():
        wait.set_result(None)


def fail_wait(wait: Future[None] | None, error: GatewayError) -> bool:
    """Return whether somebody was still waiting."""
    if wait is None or wait.done():
        return False
    wait.set_exception(error)
    wait.exception()  # the handler may be gone, and asyncio would report the error as unseen
    return True


def find_failure(wait: Future[None]) -> BaseException | None:
    """Return why the wait failed; None if it did not, or was cancelled."""
    return wait.exception() if wait.done() and not wait.cancelled() else None
