"""The chore: every kind of alert, to a receiver on loopback."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from gateway.admin.fields import name_process
from gateway.api.state import Gateway
from gateway.base.times import unix_ms
from gateway.base.turns import spawn
from gateway.extras.alerts.book import AlertBook
from gateway.extras.alerts.records import Alert, Hook
from gateway.extras.alerts.settings import Alerts
from gateway.extras.alerts.watch import Watch
from gateway.extras.observations.observer import CallSum, Observations
from gateway.ledger.budget_records import Allowance, Budget, BudgetStanding, Spending, find_span
from gateway.ledger.sqlite.batch import write_aside
from gateway.ledger.sqlite.books import SqliteBooks
from tests import ROOT
from tests.extras.alerts.receiver import SECRET, Receiver, listen, verify
from tests.extras.observations.kit import writing
from tests.support.cli import Answer, run_here
from tests.support.process import GatewayProcess, free_port
from tests.support.served import HOLDER, Served, open_served, prepare
from tests.support.settings import load
from tests.support.stand_in import URL, stand_in
from tests.support.waiting import until

SECONDS = 60.0
LOOK_SECONDS = 0.05


def write_alerts(receiver: Receiver, more: str = "") -> str:
    return (
        f'[alerts]\nwebhook = "{receiver.url}"\nwebhook_secret = "{SECRET}"\n'
        f'holder_webhooks = "any"\n{more}\n'
    )


@asynccontextmanager
async def watch(
    folder: Path,
    receiver: Receiver,
    more: str = "",
    seed: Callable[[SqliteBooks], object] | None = None,
) -> AsyncIterator[Served]:
    async with open_served(
        folder, billing="low_balance = 5", more=write_alerts(receiver, more), seed=seed
    ) as served:
        chore = spawn(Watch(served.gateway, look_seconds=LOOK_SECONDS).run(), name="alerts")
        yield served
        chore.cancel()
    assert all(verify(SECRET, *one) for one in receiver.signatures)


async def arrive(receiver: Receiver, kind: str, count: int = 1) -> list[Any]:
    await until(lambda: len(receiver.find(kind)) >= count, kind, seconds=SECONDS)
    found = receiver.find(kind)
    assert len(found) == count
    return found


def change_balance(served: Served, nano: int) -> None:
    """Change the holder's balance behind the back of the books."""
    with closing(sqlite3.connect(served.database)) as connection, connection:
        connection.execute(
            "UPDATE accounts SET balance_nano = balance_nano + ? WHERE id = 1", (nano,)
        )


def note_calls(books: SqliteBooks, failures: int, calls: int, slots: int = 0) -> None:
    slot = unix_ms() // 600_000 + slots
    sums = Observations(calls={(slot, "demo", "echo"): CallSum(calls, failures)})
    write_aside(books.connection, writing(sums, unix_ms()))


async def test_each_kind_is_told_to_the_operator_and_to_whom_it_concerns_once(
    tmp_path: Path,
) -> None:
    """Findings and books have the rules of each; here they come from a gateway that serves."""

    def seed(books: SqliteBooks) -> None:
        note_calls(books, 3, 3, -1)

    with listen() as receiver, listen() as own:
        async with watch(tmp_path, receiver, "backup_days = 1", seed=seed) as served:
            (told,) = await arrive(receiver, "old_backup")
            assert "No backup is known" in told["text"]
            (told,) = await arrive(receiver, "provider_failing")
            assert (told["state"], told["subject"]) == ("raised", "demo")
            with served.open_books() as books:
                account_id = books.accounts.find_id(HOLDER)
                AlertBook(books).set_hook(account_id, Hook(own.url, "whsec_own", None))
                books.note("account.password", account=HOLDER)
                books.note("account.password", account=HOLDER)
                books.entries.post(HOLDER, "correction", -96 * 10**9, note="spent")
                note_calls(books, 0, 9)
            _, again = await arrive(receiver, "provider_failing", 2)
            assert (again["state"], again["text"]) == ("ended", "Provider demo works again.")
            for heard in (receiver, own):
                told = await arrive(heard, "password_changed", 2)
                assert "was changed by cli" in told[0]["text"]
                told += await arrive(heard, "low_balance")
                words = "The balance of account 'holder' is 4.00 USD, below 5.00 USD."
                assert told[-1]["text"] == words
                assert {one["account"] for one in told} == {HOLDER}
            assert run_verb(tmp_path, "audit").code == 0, "this is not told"
            change_balance(served, 1)
            verb = run_verb(tmp_path, "audit")
            assert verb.code == 3, verb.err
            (told,) = await arrive(receiver, "audit_mismatch")
            assert "do not add up" in told["text"]
            change_balance(served, -1)
            assert len(receiver.find("old_backup")) == len(receiver.find("low_balance")) == 1
        assert all(verify("whsec_own", *one) for one in own.signatures)


def run_verb(folder: Path, *words: str) -> Answer:
    return run_here([*words, "--config", str(folder / "gateway.toml")], os.environ)


async def test_a_ledger_that_cannot_be_written_is_told_without_it(tmp_path: Path) -> None:
    """Its files are moved away, as by an operator's mistake, and come back."""
    with listen() as receiver:
        async with watch(tmp_path, receiver) as served:
            names = [served.database.name + end for end in ("", "-wal", "-shm")]
            for name in names:
                (tmp_path / name).rename(tmp_path / f"away-{name}")
            (told,) = await arrive(receiver, "ledger_unwritable")
            assert (told["state"], told["account"]) == ("raised", None)
            for name in names:
                (tmp_path / f"away-{name}").rename(tmp_path / name)
            _, over = await arrive(receiver, "ledger_unwritable", 2)
            assert over["state"] == "ended"


async def test_a_reload_during_an_outage_changes_who_is_told(tmp_path: Path) -> None:
    """The first receiver refuses, so it would be tried again and again; the next one is told once."""
    with listen(*[500] * 9) as old, listen() as new:
        async with open_served(tmp_path, more=write_alerts(old)) as served:
            gateway = served.gateway
            unwritable = SimpleNamespace(writable=False, clock=unix_ms)
            failing = cast("Gateway", SimpleNamespace(config=gateway.config, ledger=unwritable))
            watching = Watch(failing)
            await watching.look()
            await arrive(old, "ledger_unwritable")
            failing.config = replace(
                gateway.config,
                extras={"alerts": replace(gateway.config.find(Alerts), webhook=new.url)},
            )
            for _ in range(2):
                await watching.look()
            await arrive(new, "ledger_unwritable")
            assert watching._outage is not None
            await asyncio.wait_for(watching._outage, SECONDS)
            failing.config = replace(
                gateway.config, extras={"alerts": Alerts("", "", (), "off", 0)}
            )
            await watching.look()
            await asyncio.wait_for(watching._outage, SECONDS)
            assert (len(old.bodies), len(new.bodies)) == (1, 1)


async def test_a_start_on_books_that_do_not_add_up_is_told(tmp_path: Path) -> None:
    port = free_port()
    with listen() as receiver:
        prepare(tmp_path, port, more=write_alerts(receiver))
        with closing(sqlite3.connect(tmp_path / "gateway.db")) as connection, connection:
            connection.execute("UPDATE accounts SET balance_nano = balance_nano + 1 WHERE id = 1")
        done = await GatewayProcess(tmp_path, port).run_apart("serve")
        assert done.code == 3, done.err
        (told,) = receiver.find("audit_mismatch")
        assert told["text"].startswith("The gateway did not start")


@pytest.mark.parametrize("more", ["", "[alerts]\nbackup_days = 1\n"])
def test_nothing_is_done_while_no_way_is_set(tmp_path: Path, more: str) -> None:
    verb = tmp_path / "gateway.toml"
    prepare(tmp_path, free_port(), more=more)
    assert verb.exists()
    done = run_verb(tmp_path, "alerts", "test")
    assert (done.code, "No webhook and no command" in done.err) == (1, True)
    (named,) = re.findall(r"gateway/\S+\.md", done.err)
    assert "\n[alerts]\n" in (ROOT / named).read_text(encoding="utf-8"), "the file has the examples"


async def test_budgets_are_judged_beside_the_event_loop(tmp_path: Path) -> None:
    """There may be one for each of many thousand keys, and each look judges all of them."""
    threads = set[int]()

    class Noting(Budget):
        def show(self, now_ms: int) -> BudgetStanding:
            threads.add(threading.get_ident())
            return super().show(now_ms)

    async with open_served(tmp_path, more='[alerts]\ncommand = ["true"]\n') as served:
        spending = Spending(find_span("day", 0), 0)
        budget = Noting(1, served.account_id(HOLDER), None, Allowance(10, "day"), spending)
        await Watch(served.gateway, list_budgets=lambda: [budget]).look()
    assert threads
    assert threading.get_ident() not in threads


@pytest.mark.parametrize(
    ("storage", "by", "where"),
    [("", "", "the disk"), (f'url = "{URL}"', " by this process", "PostgreSQL")],
)
async def test_an_outage_says_where_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, storage: str, by: str, where: str
) -> None:
    told: list[Alert] = []

    async def note(_: Alerts, alert: Alert) -> None:
        told.append(alert)

    monkeypatch.setattr("gateway.extras.alerts.watch.tell_at_once", note)
    stand_in(monkeypatch, tmp_path / "behind.db")
    config = load(tmp_path, f"[storage]\n{storage}\n")
    served = SimpleNamespace(config=config, ledger=SimpleNamespace(writable=False, clock=unix_ms))
    watching = Watch(cast("Gateway", served))
    await watching.look()
    assert watching._outage is not None
    await watching._outage
    (alert,) = told
    node = name_process(os.getpid()) if by else ""
    by = by and f" by {node}"
    words = f"The ledger cannot be written{by}: new requests are refused. Look at {where}."
    assert alert.text == words
    assert alert.subject == (f"ledger, {node}" if node else "ledger")
