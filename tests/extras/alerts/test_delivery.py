"""Deliveries: pauses that grow, results that wait in memory, and no alert that another holds up."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

import pytest

from gateway.base.times import unix_ms
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.delivery import (
    FIRST_PAUSE_MS,
    MAX_PER_RECEIVER,
    Deliveries,
    tell_at_once,
)
from gateway.extras.alerts.records import Alert, Hook
from gateway.extras.alerts.settings import Alerts
from gateway.ledger.sqlite.books import SqliteBooks
from tests.extras.alerts.receiver import HANG, SECRET, listen, verify
from tests.support.waiting import until

ALERT = Alert("audit_mismatch", "audit", "1", "The books do not add up.")


def make_config(url: str, *command: str, holders: Literal["public", "any"] = "any") -> Alerts:
    return Alerts(url, SECRET if url else "", command, holders, 0)


@dataclass
class Place:
    path: Path

    def raise_all(self, *alerts: Alert) -> None:
        with SqliteBooks(self.path) as books:
            AlertBook(books).raise_all(alerts, ["webhook"])

    def read(self) -> list[tuple[int, str | None, bool]]:
        """Return attempts, reason and whether it was delivered, of each alert to the operator."""
        with SqliteBooks(self.path) as books:
            return [
                (one.attempts, one.reason, one.delivered_ms is not None)
                for one in AlertBook(books).read_latest(99)
            ]

    def set_hook(self, url: str) -> int:
        with SqliteBooks(self.path) as books:
            account_id = books.accounts.find_id("a")
            AlertBook(books).set_hook(account_id, Hook(url, "whsec_own", None))
            return account_id


def is_there(place: Place, row: tuple[int, str | None, bool]) -> bool:
    return place.read() == [row]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        books.accounts.create("a", credit_nano=1000, operator=False)
    return Place(tmp_path / "gateway.db")


async def test_it_is_delivered_once_in_good_times(place: Place) -> None:
    deliveries = Deliveries(place.path)
    place.raise_all(ALERT)
    with listen() as receiver:
        config = make_config(receiver.url)
        for _ in range(3):
            await deliveries.start_due(config)
        await until(lambda: place.read() == [(1, None, True)], "the delivery")
        await deliveries.start_due(config)
        assert receiver.kinds() == ["audit_mismatch"]
        ((header, body),) = receiver.signatures
    assert verify(SECRET, header, body)


async def test_a_failure_is_tried_again_when_its_pause_is_over(place: Place) -> None:
    now_ms = unix_ms()
    deliveries = Deliveries(place.path, clock=lambda: now_ms - FIRST_PAUSE_MS)
    place.raise_all(ALERT)
    with listen(500, 302) as receiver:
        config = make_config(receiver.url)
        for attempts, reason in ((1, "status 500"), (2, "status 302; redirects are not followed")):
            await deliveries.start_due(config)
            await until(partial(is_there, place, (attempts, reason, False)), reason)
            now_ms -= FIRST_PAUSE_MS * attempts
        await deliveries.start_due(config)
        await until(lambda: place.read() == [(3, None, True)], "the delivery")
        assert len({body["id"] for body in receiver.bodies}) == 1


async def test_a_receiver_that_hangs_takes_its_share_alone(place: Place) -> None:
    """An alert that was claimed is not due for a while; one that waits is, at each look."""
    deliveries = Deliveries(place.path)
    with listen(*[HANG] * 99) as stuck, listen() as receiver:
        account_id, config = place.set_hook(stuck.url), make_config(receiver.url)
        with SqliteBooks(place.path) as books:
            for _ in range(3 * MAX_PER_RECEIVER):
                AlertBook(books).raise_test(account_id, ())
        for _ in range(3):
            await deliveries.start_due(config)
        await until(lambda: len(stuck.bodies) >= MAX_PER_RECEIVER, "the requests that hang")
        place.raise_all(ALERT)
        await deliveries.start_due(config)
        await until(lambda: place.read() == [(1, None, True)], "the delivery")
        assert len(stuck.bodies) == MAX_PER_RECEIVER
        deliveries.close()


async def test_a_result_that_cannot_be_written_is_kept_and_nothing_is_sent_twice(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gateway.extras.alerts.delivery.LOCK_WAIT_MS", 50)
    deliveries = Deliveries(place.path)
    place.raise_all(ALERT)
    with listen() as receiver:
        config = make_config(receiver.url)
        with SqliteBooks(place.path) as other:
            await deliveries.start_due(config)
            with other.changing():  # the lock is held longer than a look waits
                await until(lambda: receiver.bodies, "the request")
                await asyncio.sleep(0.2)
        await deliveries.start_due(config)
        await until(lambda: place.read() == [(1, None, True)], "the note")
        assert len(receiver.bodies) == 1


async def test_a_holders_webhook_has_a_public_address(place: Place) -> None:
    """Where the operator has not allowed others."""
    deliveries = Deliveries(place.path)
    with listen() as receiver:
        account_id = place.set_hook(receiver.url)
        with SqliteBooks(place.path) as books:
            AlertBook(books).raise_test(account_id, ())
            await deliveries.start_due(make_config("", "true", holders="public"))
            await until(lambda: find_reason(books, account_id), "the refusal")
            assert find_reason(books, account_id) == "the address is not public"
    assert receiver.bodies == []


def find_reason(books: SqliteBooks, account_id: int) -> str | None:
    return AlertBook(books).read_latest(9, account_id)[0].reason


async def test_a_way_that_is_set_no_more_is_not_tried_again(place: Place) -> None:
    place.raise_all(ALERT)
    await Deliveries(place.path).start_due(make_config("", "true"))
    await until(lambda: place.read() == [(1, "it is not set any more", False)], "the failure")
    with SqliteBooks(place.path) as books:
        assert AlertBook(books).read_latest(1)[0].next_try_ms is None


async def test_without_the_ledger_each_way_is_told_once(tmp_path: Path) -> None:
    keep = "import sys; open(sys.argv[1], 'a').write(sys.stdin.read())"
    path = tmp_path / "told"
    with listen() as receiver:
        config = make_config(receiver.url, sys.executable, "-c", keep, str(path))
        await tell_at_once(config, ALERT)
        assert receiver.bodies == [json.loads(path.read_bytes())]
