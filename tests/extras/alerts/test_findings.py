"""Findings follow from what the process knows."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from gateway.base.times import DAY_MS
from gateway.base.usage import MissingUsage
from gateway.extras.alerts.findings import (
    find_budgets,
    find_missing_usages,
    find_old_backup,
    find_told_events,
    judge_providers,
)
from gateway.extras.observations.observer import CallSum, Observations
from gateway.ledger.budget_records import Allowance, Budget, Spending, find_span
from gateway.ledger.records import Actor
from gateway.ledger.sqlite.batch import write_aside
from gateway.ledger.sqlite.books import SqliteBooks
from tests.extras.observations.kit import writing
from tests.ledger.contract.kit import NOW_MS
from tests.support.rows import each_row
from tests.support.settings import load

CONFIG: Final = """
[providers.demo]
dialect = "demo"
[providers.spare]
dialect = "demo"
[models.echo]
routes = ["demo/echo", "spare/echo"]
price = "free"
[models.large]
routes = ["demo/large"]
price = "free"
"""
OTHER: Final = '[providers.other]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
MODEL: Final = '[models.more]\nroutes = ["other/{}"]\nprice = "free"\n'
NODES: Final = {
    "": "",
    "where it is off": f'{OTHER}api_key = "env:UNSET"\n',
    "where well is used": OTHER + MODEL.format("well"),
    "where ill is used": OTHER + MODEL.format("ill"),
}
JUDGED: Final = re.compile(r"(.*?)(?: (where .*))? = (.*)")
"""The lines of `judged.txt`: what was noted, by whose configuration it is judged, and what is found."""


def make_budget(spent_nano: int, at_ms: int = NOW_MS) -> Budget:
    """Make a budget of 1000 nano-units a day, and what was spent of it on the day of a moment."""
    spending = Spending(find_span("day", at_ms), spent_nano)
    return Budget(7, 3, "team", Allowance(1000, "day"), spending)


@each_row(
    ("spent_nano", "percents"),
    [(0, []), (799, []), (800, [80]), (999, [80]), (1000, [100]), (1500, [100])],
)
def test_a_budget_is_told_at_80_and_100_percent(spent_nano: int, percents: list[int]) -> None:
    found = list(find_budgets([make_budget(spent_nano)], NOW_MS, "USD"))
    assert [one.occurrence.split()[-1] for one in found] == [str(one) for one in percents]
    assert all(one.account_id == 3 and "'team' of 0.000001 USD" in one.text for one in found)


def test_a_budget_is_told_again_in_its_next_period() -> None:
    found = [
        next(find_budgets([make_budget(900, at_ms)], at_ms, "USD"))
        for at_ms in (NOW_MS, NOW_MS, NOW_MS + DAY_MS)
    ]
    assert len({one.key for one in found}) == 2


def test_missing_usage_is_told_once_a_day() -> None:
    today, before = MissingUsage("p", "m", 2, NOW_MS), MissingUsage("q", "m", 2, NOW_MS - DAY_MS)
    (first,) = find_missing_usages([today, before], NOW_MS)
    today.count, today.last_ms = 9, NOW_MS + 1
    (second,) = find_missing_usages([today], NOW_MS + 1)
    today.last_ms += DAY_MS
    (third,) = find_missing_usages([today], NOW_MS + 1 + DAY_MS)
    assert first.key == second.key != third.key
    assert "model m: 2 replies" in first.text


def judge(folder: Path, noted: str, node: str) -> str:
    with SqliteBooks(folder / "gateway.db", create=True, clock=lambda: NOW_MS) as books:
        for one in noted.split(", "):
            name, calls, failures, slots_ago = f"{one} 0".split()[:4]
            provider, model = name.split("/")
            at = (NOW_MS // 600_000 - int(slots_ago), provider, model)
            sums = Observations(calls={at: CallSum(int(calls), int(failures))})
            write_aside(books.connection, writing(sums, NOW_MS))
        found = judge_providers(books, load(folder, CONFIG + NODES[node]))
    told = [*found.failing.values(), *found.working.values()]
    return ", ".join(told + [f"{name}: unknown" for name in found.unknown]) or "nothing"


@each_row("line", Path(__file__).with_name("judged.txt").read_text("utf-8").splitlines())
def test_providers_are_judged_as_it_is_written(tmp_path: Path, line: str) -> None:
    if not line.startswith("#"):
        found = JUDGED.fullmatch(line)
        assert found is not None
        assert judge(tmp_path, found[1], found[2] or "") == found[3]


@pytest.mark.parametrize(
    ("days", "age_ms", "is_old"),
    [(0, 99 * DAY_MS, False), (2, 2 * DAY_MS - 1, False), (2, 2 * DAY_MS, True)],
)
def test_a_backup_grows_old(tmp_path: Path, days: int, age_ms: int, is_old: bool) -> None:
    now_ms = NOW_MS
    with SqliteBooks(tmp_path / "gateway.db", create=True, clock=lambda: now_ms) as books:
        assert bool(find_old_backup(books, days)) is bool(days)
        books.back_up(tmp_path / "copy.db")
        now_ms += age_ms
        assert bool(find_old_backup(books, days)) is is_old


def test_each_change_of_a_sign_in_is_told(tmp_path: Path) -> None:
    """Whoever made it; what was told is not read again, and what is old is not told."""
    now = [NOW_MS]
    with SqliteBooks(tmp_path / "gateway.db", create=True, clock=lambda: now[0]) as books:
        account = books.accounts.create("ann", credit_nano=0, operator=True)
        books.note("account.password", account="ann")
        now[0] += DAY_MS + 1
        assert find_told_events(books, {}) == []
        books.note("account.password", account="ann")
        books.actor = Actor("ann", "192.0.2.7")
        books.note("account.password", account="ann")
        books.note("account.totp", account="ann", detail="set up")
        books.note("account.password", account="ann", target="dana")
        found = find_told_events(books, {})
        assert [one.text for one in found] == [
            "The password of account 'ann' was changed by cli.",
            "The password of account 'ann' was changed by ann from 192.0.2.7.",
            "The password of account 'ann/dana' was changed by ann from 192.0.2.7.",
            "The one-time codes of account 'ann' were set up by ann from 192.0.2.7.",
        ]
        assert {one.account_id for one in found} == {account.id}
        assert [one.kind for one in found] == ["password_changed"] * 3 + ["totp_changed"]
        assert len({one.key for one in found}) == 4
        told = {one.kind: int(one.occurrence) for one in found}
        assert find_told_events(books, told) == []
