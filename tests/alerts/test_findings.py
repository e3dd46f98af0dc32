"""Findings follow from what the process knows."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.alerts.findings import (
    find_budgets,
    find_failing_providers,
    find_missing_usages,
    find_old_backup,
)
from gateway.api import MissingUsage
from gateway.ledger.serving.sums import CallSum, Observations
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.ledger.sqlite.observations import write_aside
from gateway.times import DAY_MS
from tests.ledger.contract.kit import NOW_MS
from tests.support.settings import load

CONFIG = """
[providers.demo]
dialect = "demo"
[providers.spare]
dialect = "demo"
[models.echo]
routes = ["demo/echo", "spare/echo"]
price = "free"
"""


@dataclass
class Standing:
    spent_nano: int
    id: int = 7
    name: str | None = "team"
    amount_nano: int = 1000
    resets_ms: int = NOW_MS


@dataclass
class Budget:
    standing: Standing
    account_id: int = 3

    def show(self, now_ms: int) -> Standing:
        del now_ms
        return self.standing


@pytest.mark.parametrize(
    ("spent_nano", "percents"),
    [(0, []), (799, []), (800, [80]), (999, [80]), (1000, [100]), (1500, [100])],
)
def test_a_budget_is_told_at_80_and_100_percent(spent_nano: int, percents: list[int]) -> None:
    found = list(find_budgets([Budget(Standing(spent_nano))], NOW_MS, "USD"))
    assert [one.occurrence.split()[-1] for one in found] == [str(one) for one in percents]
    assert all(one.account_id == 3 and "'team' of 0.000001 USD" in one.text for one in found)


def test_a_budget_is_told_again_in_its_next_period() -> None:
    found = [
        next(find_budgets([Budget(Standing(900, resets_ms=NOW_MS + day * DAY_MS))], NOW_MS, "USD"))
        for day in (0, 0, 1)
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


def test_a_provider_fails_by_the_rule_of_the_page(tmp_path: Path) -> None:
    config = load(tmp_path, CONFIG)
    with SqliteBooks(tmp_path / "gateway.db", create=True, clock=lambda: NOW_MS) as books:
        assert find_failing_providers(books, config) == ({}, {})
        sums = {(0, "demo", "echo"): CallSum(2, 1), (0, "spare", "echo"): CallSum(3, 1)}
        for slot, (key, one) in enumerate(sums.items()):
            at = (NOW_MS // 600_000 - slot, *key[1:])
            write_aside(books.connection, Observations(calls={at: one}), NOW_MS)
        failing, working = find_failing_providers(books, config)
    assert failing == {"demo": "Provider demo is failing (1 of 2 in the last hour)."}
    assert working == {"spare": "Provider spare works again."}


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
