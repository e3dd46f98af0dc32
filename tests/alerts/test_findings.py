"""Findings follow from what the process knows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gateway.alerts.watch import (
    Providers,
    find_budgets,
    find_missing_usages,
    find_old_backup,
    find_told_events,
    judge_providers,
)
from gateway.ledger import key_records
from gateway.ledger.key_records import Allowance, BudgetStanding, Spending, find_span
from gateway.ledger.order_records import Payment, Reversal
from gateway.ledger.records import Actor
from gateway.ledger.serving.queue import CallSum, Observations
from gateway.ledger.sqlite.batch import write_aside
from gateway.ledger.sqlite.books import SqliteBooks
from gateway.money import NANO
from gateway.times import DAY_MS
from gateway.usage import MissingUsage
from tests.ledger.contract.kit import NOW_MS
from tests.support.rows import each_row
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


OTHER = '[providers.other]\ndialect = "chat"\nbase_url = "http://127.0.0.1:9/v1"\n'
OTHER_MODEL = '[models.more]\nroutes = ["other/well"]\nprice = "free"\n'


@dataclass
class Standing:
    spent_nano: int
    id: int = 7
    name: str | None = "team"
    amount_nano: int = 1000
    resets_ms: int = NOW_MS


class Budget(key_records.Budget):
    """A budget in memory that shows what a test sets."""

    def __init__(self, standing: Standing, account_id: int = 3) -> None:
        allowance = Allowance(standing.amount_nano, "day")
        spending = Spending(find_span("day", NOW_MS), standing.spent_nano)
        super().__init__(standing.id, account_id, standing.name, allowance, spending)
        self.standing = standing

    def show(self, now_ms: int) -> BudgetStanding:
        del now_ms
        now = self.standing
        figures = (now.amount_nano, now.spent_nano, now.resets_ms)
        return BudgetStanding(now.id, now.name, "day", *figures)


@each_row(
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


def note(books: SqliteBooks, name: str, calls: int, failures: int, slots_ago: int = 0) -> None:
    """Write down how a provider's model, `demo/echo`, answered ten minutes, or more, ago."""
    provider, _, model = name.partition("/")
    at = (NOW_MS // 600_000 - slots_ago, provider, model)
    write_aside(books.connection, Observations(calls={at: CallSum(calls, failures)}), NOW_MS)


@pytest.fixture
def books(tmp_path: Path) -> Iterator[SqliteBooks]:
    with SqliteBooks(tmp_path / "gateway.db", create=True, clock=lambda: NOW_MS) as books:
        yield books


def test_a_provider_fails_by_the_rule_of_the_page(tmp_path: Path, books: SqliteBooks) -> None:
    config = load(tmp_path, CONFIG)
    assert judge_providers(books, config) == Providers()
    note(books, "demo/echo", 6, 3)
    note(books, "spare/echo", 3, 1, slots_ago=1)
    assert judge_providers(books, config) == Providers(
        failing={"demo": "Provider demo is failing (3 of 6 in its latest ten minutes)."},
        working={"spare": "Provider spare works again."},
    )


@pytest.mark.parametrize(
    ("slots", "words"),
    [
        ([("echo", 1, 1)], None),
        ([("echo", 2, 2)], None),
        ([("echo", 4, 2)], None),
        ([("echo", 3, 3)], "failing (3 of 3 in its latest ten minutes)"),
        ([("echo", 5, 3)], "failing (3 of 5 in its latest ten minutes)"),
        ([("echo", 2, 2), ("echo", 1, 1)], "failing (all 3 in the last hour)"),
        ([("echo", 3, 2), ("echo", 1, 1)], None),
        (
            [("echo", 3, 3), ("large", 9, 0)],
            "failing for model echo (3 of 3 in its latest ten minutes)",
        ),
    ],
)
def test_few_failures_are_no_alarm(
    tmp_path: Path, books: SqliteBooks, slots: list[tuple[str, int, int]], words: str | None
) -> None:
    """Nor an end of one."""
    second = CONFIG + '[models.large]\nroutes = ["demo/large"]\nprice = "free"\n'
    for slots_ago, (model, calls, failures) in enumerate(slots):
        note(books, f"demo/{model}", calls, failures, slots_ago=slots_ago)
    found = judge_providers(books, load(tmp_path, second))
    assert found.failing == ({} if words is None else {"demo": f"Provider demo is {words}."})
    assert found.unknown == ({"demo"} if words is None else set())


def test_one_that_failed_hours_ago_neither_fails_nor_works(
    tmp_path: Path, books: SqliteBooks
) -> None:
    note(books, "demo/echo", 2, 2, slots_ago=7)
    assert judge_providers(books, load(tmp_path, CONFIG)) == Providers(unknown={"demo"})


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ("", {"other"}),  # no such provider here
        (OTHER + 'api_key = "env:UNSET"\n', {"other"}),  # it is off here
        (OTHER + OTHER_MODEL, {"other"}),  # the model that fails is not used here
        (OTHER + OTHER_MODEL.replace("well", "ill"), set()),
    ],
)
def test_nodes_with_other_files_end_nothing_that_one_of_them_begins(
    tmp_path: Path, books: SqliteBooks, lines: str, expected: set[str]
) -> None:
    note(books, "other/ill", 3, 3)
    note(books, "other/well", 9, 0)
    found = judge_providers(books, load(tmp_path, CONFIG + lines))
    assert (found.unknown, found.working) == (expected, {})
    assert bool(found.failing) is not bool(expected)


def test_a_provider_that_nobody_asks_any_more_is_forgotten(
    tmp_path: Path, books: SqliteBooks
) -> None:
    note(books, "other/ill", 2, 2, slots_ago=7)
    assert judge_providers(books, load(tmp_path, CONFIG)) == Providers()


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
        books.signins.set_password("ann", "an old hash")
        now[0] += DAY_MS + 1
        assert find_told_events(books, {}) == []
        books.signins.set_password("ann", "hash")
        books.actor = Actor("ann", "192.0.2.7")
        books.signins.set_password("ann", "another hash")
        own = books.people.read("ann")
        books.totp.propose(own, b"k" * 20)
        books.totp.confirm(own, b"k" * 20, 1, [])
        books.signins.set_password("ann", "dana's hash", "dana")
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


def test_what_becomes_of_a_payment_is_told(tmp_path: Path) -> None:
    """Refunds, disputes, and what contradicts its order."""
    with SqliteBooks(tmp_path / "gateway.db", create=True) as books:
        books.accounts.create("ann")
        order = books.orders.make("ann", NANO, "USD")
        payment = Payment("cs_1", order.id, "paid", NANO, "USD", "pi_1")
        books.orders.settle(replace(payment, amount_nano=7))
        books.orders.settle(payment)
        refund = Reversal("re_1", "refund", "pi_1", None, NANO, "USD", stands=True)
        books.orders.take_back(refund)
        books.orders.take_back(replace(refund, id="dp_1", kind="dispute"))
        found = {one.kind: one.text for one in find_told_events(books, {})}
    assert found == {
        "payment_refused": "What is told of a card payment of 'ann' contradicts its order and is ignored:"
        " 0.000000007 USD was paid.",
        "payment_refunded": "A payment by card of account 'ann' was given back: -1.00: card refund re_1"
        f" of {order.id}.",
        "payment_disputed": "A payment by card of account 'ann' is disputed, or a dispute of it ended:"
        f" -1.00: card dispute dp_1 of {order.id}.",
    }
