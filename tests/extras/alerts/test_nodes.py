"""Several gateways on one database: each alert is raised once, and delivered by one of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Final, cast

import pytest

from gateway.api.state import Gateway
from gateway.base.times import unix_ms
from gateway.base.usage import MissingUsage
from gateway.config.records import Config
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.delivery import LEASE_MS, Deliveries
from gateway.extras.alerts.records import Alert
from gateway.extras.alerts.settings import Alerts
from gateway.extras.alerts.watch import Watch
from gateway.ledger.records import DatabaseUrl
from tests.extras.alerts.receiver import HANG, SECRET, Receiver, listen
from tests.extras.alerts.test_findings import Budget, Standing
from tests.support.extras import need_extra
from tests.support.settings import load
from tests.support.waiting import until

if TYPE_CHECKING:
    from gateway.extras.postgres.books import PostgresBooks

pytestmark = need_extra("postgres")

NODES: Final = 3
ROUNDS: Final = 5


@contextmanager
def open_ledger(url: str, clock: Callable[[], int] = unix_ms) -> Iterator[PostgresBooks]:
    from gateway.extras.postgres.books import PostgresBooks

    with PostgresBooks(url, create=True, clock=clock) as books:
        yield books


@pytest.fixture
def url(postgres_url: str) -> str:
    """A database with one account `a`, which was credited 10."""
    with open_ledger(postgres_url) as books:
        books.accounts.create("a", credit_nano=10**10, operator=False)
    return postgres_url


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with listen() as receiver:
        yield receiver


def configure(folder: Path, url: str, receiver: Receiver) -> Config:
    return load(
        folder,
        f'[storage]\nurl = "{url}"\n[billing]\nlow_balance = 5\n[alerts]\n'
        f'webhook = "{receiver.url}"\nwebhook_secret = "{SECRET}"\nholder_webhooks = "any"\n',
    )


def make_nodes(config: Config, budgets: list[Budget], usages: list[MissingUsage]) -> list[Watch]:
    served = SimpleNamespace(
        config=config,
        ledger=SimpleNamespace(writable=True, clock=unix_ms),
        missing_usages=SimpleNamespace(list_latest=lambda: usages),
        routes=SimpleNamespace(providers={}),
    )
    gateway = cast("Gateway", served)
    return [Watch(gateway, list_budgets=lambda: budgets) for _ in range(NODES)]


async def test_what_all_see_in_the_same_second_is_told_once(
    tmp_path: Path, url: str, receiver: Receiver
) -> None:
    standing = Standing(0)
    usages = [MissingUsage("p", "m", 1, unix_ms())]
    config = configure(tmp_path, url, receiver)
    with open_ledger(url) as books:
        budget = Budget(standing, books.accounts.find_id("a"))
        nodes = make_nodes(config, [budget], usages)
        for number in range(1, ROUNDS + 1):
            books.entries.post("a", "correction", -9 * 10**9, note="spent")
            standing.spent_nano, standing.resets_ms = 900, number
            await asyncio.gather(*(node.look() for node in nodes))
            await until(lambda: count_due(books) == 0, "the deliveries")
            books.entries.post("a", "credit", 9 * 10**9, note="")
            await asyncio.gather(*(node.look() for node in nodes))
    kinds = receiver.kinds()
    assert {kind: kinds.count(kind) for kind in kinds} == {
        "low_balance": ROUNDS, "budget": ROUNDS, "missing_usage": 1
    }  # fmt: skip
    assert len({body["id"] for body in receiver.bodies}) == len(kinds)


def count_due(books: PostgresBooks) -> int:
    """Return how many alerts are neither delivered nor given up."""
    return sum(one.next_try_ms is not None for one in AlertBook(books).read_latest(99))


async def test_an_alert_of_a_node_that_is_gone_is_another_ones_after_the_lease(
    tmp_path: Path, url: str
) -> None:
    location = DatabaseUrl(url)
    dead, alive = Deliveries(location), Deliveries(location)
    ahead_ms = 0
    with (
        listen(HANG) as receiver,
        open_ledger(url) as books,
        open_ledger(url, clock=lambda: unix_ms() + ahead_ms) as later,
    ):
        config = configure(tmp_path, url, receiver).find(Alerts)
        AlertBook(books).raise_all(
            [Alert("old_backup", "backup", "1", "Too old.")], config.channels
        )
        await dead.start_due(config)
        await until(lambda: receiver.bodies, "the first delivery")
        dead.close()
        await alive.start_due(config)
        assert AlertBook(later).read_due(9) == []
        ahead_ms = LEASE_MS
        (due,) = AlertBook(later).read_due(9)
        assert AlertBook(later).claim([due.id], unix_ms()) == {due.id}  # its lease is over
        await alive.start_due(config)
        await until(lambda: count_due(books) == 0, "the second delivery")
        first, second = receiver.bodies
        assert first == second
